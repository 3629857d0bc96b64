#include <algorithm>

#include <sinew/collectives/hierarchy/composer.hpp>

namespace sinew {
namespace {

int place_in(const Ranks& ranks, int rank) { return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin()); }

/// What a rank without such a buffer has: none.
Slices slices(Slice s) { return s.count == 0 ? Slices{} : Slices{s}; }

/// One rank of each part, the root for its own.
Ranks leaders_of(const std::vector<Ranks>& parts, int root) {
  Ranks leaders;
  for (const Ranks& part : parts) leaders.push_back(std::ranges::find(part, root) == part.end() ? part[0] : root);
  return leaders;
}

}  // namespace

void Composer::broadcast(const Ranks& ranks, std::size_t level, int root, Slice in, Slice out) {
  const auto parts = parts_of(ranks, level);
  if (!parts) {
    return run(Collective::Broadcast, how_.across, ranks, slices(in), {out}, false, place_in(ranks, root));
  }
  const Ranks leaders = leaders_of(parts->all, root);
  const int leader = leaders[static_cast<std::size_t>(parts->mine)];
  if (leader == rank_) broadcast(leaders, level + 1, root, in, out);
  const Slice from = rank_ == root ? in : leader == rank_ ? out : Slice{};
  run(Collective::Broadcast, how_.inside, parts->own(), slices(from), {rank_ == root ? in : out}, false,
      place_in(parts->own(), leader));
}

void Composer::reduce(const Ranks& ranks, std::size_t level, int root, Slice in, Slice out) {
  const auto parts = parts_of(ranks, level);
  if (!parts) return run(Collective::Reduce, how_.across, ranks, {in}, slices(out), true, place_in(ranks, root));
  const Ranks leaders = leaders_of(parts->all, root);
  const int leader = leaders[static_cast<std::size_t>(parts->mine)];
  const Ranks& own = parts->own();
  Slice sum;
  if (leader == rank_) sum = own.size() == 1 ? in : rank_ == root ? out : to_.scratch_like(in);
  run(Collective::Reduce, how_.inside, own, {in}, slices(sum), false, place_in(own, leader));
  if (leader == rank_) reduce(leaders, level + 1, root, sum, rank_ == root ? out : Slice{});
}

}  // namespace sinew
