#include <sinew/collectives/hierarchy/hierarchical_all_to_all.hpp>

namespace sinew {

Ranks HierarchicalAllToAll::takers(const LevelParts& parts, int place) {
  Ranks ranks;
  for (const Ranks& part : parts.all) {
    if (&part == &parts.own()) continue;
    for (int s = place; s < count(part); s += count(parts.own())) ranks.push_back(at(part, s));
  }
  return ranks;
}

/// Whoever carries a stripe gets what is for it and what it carries, of each of its part in one message.
std::vector<Slice> HierarchicalAllToAll::collect(const LevelParts& parts, int ranks) {
  const Ranks& own = parts.own();
  const Ranks carried = takers(parts, parts.place);
  const auto scratch_for = [&](int giver, int taker) { return to_.scratch(block_class(giver, taker, ranks)); };
  to_.copy(to_.out(rank_), to_.in(rank_));
  std::vector<Slice> arrived(own.size());
  for (int turn = 1; turn < count(own); ++turn) {
    const int right = (parts.place + turn) % count(own);
    std::vector<Slice> blocks{to_.in(at(own, right))};
    for (const int taker : takers(parts, right)) blocks.push_back(to_.in(taker));
    to_.send(at(own, right), to_.packed(blocks));
    const int left = (parts.place - turn + count(own)) % count(own);
    Slice& run = arrived[static_cast<std::size_t>(left)];
    run = scratch_for(at(own, left), rank_);
    for (const int taker : carried) scratch_for(at(own, left), taker);
    run.count += static_cast<std::uint32_t>(carried.size());
    to_.recv(at(own, left), run);
  }
  for (int p = 0; p < count(own); ++p) {
    if (p != parts.place) to_.copy(to_.out(at(own, p)), arrived[static_cast<std::size_t>(p)].part(0));
  }
  return arrived;
}

void HierarchicalAllToAll::compose(const Levels& levels, const Ranks& ranks) {
  const LevelParts parts = coarsest_parts(levels, ranks, rank_);
  const std::vector<Slice> arrived = collect(parts, count(ranks));
  const Ranks carried = takers(parts, parts.place);
  for (int k = 0; k < count(carried); ++k) {
    std::vector<Slice> blocks;
    for (int p = 0; p < count(parts.own()); ++p) {
      blocks.push_back(p == parts.place ? to_.in(at(carried, k)) : arrived[static_cast<std::size_t>(p)].part(1 + k));
    }
    to_.send(at(carried, k), to_.packed(blocks));
  }
  // In place what comes waits aside until everything of this rank's input is gone.
  for (const Ranks& part : parts.all) {
    if (&part == &parts.own()) continue;
    const int first = part.front();
    const bool side_by_side = part.back() - first == count(part) - 1;
    const bool apart = side_by_side && !to_.tells_sizes() && !to_.same(to_.in(first), to_.out(first));
    const Slice run = apart ? to_.out(first, count(part)) : scratch_for(part);
    to_.recv(at(part, parts.place % count(part)), run);
    for (int g = 0; g < count(part); ++g) to_.copy(to_.out(at(part, g)), run.part(g));
  }
}

/// Scratch for what these ranks give.
Slice HierarchicalAllToAll::scratch_for(const Ranks& givers) {
  Slice run = to_.scratch_like(to_.out(givers.front()));
  for (std::size_t g = 1; g < givers.size(); ++g) run.count += to_.scratch_like(to_.out(givers[g])).count;
  return run;
}

}  // namespace sinew
