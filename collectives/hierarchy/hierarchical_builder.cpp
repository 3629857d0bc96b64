#include <algorithm>
#include <cassert>
#include <utility>

#include <sinew/collectives/algorithms/algorithm.hpp>
#include <sinew/collectives/hierarchy/embed.hpp>
#include <sinew/collectives/hierarchy/hierarchical_builder.hpp>

namespace sinew {
namespace {

const Algorithm& algorithm(Collective collective, std::string_view name) {
  const Algorithm* found = find_algorithm(collective, name);
  assert(found != nullptr);
  return *found;
}

/// By rank, where it is among `ranks`.
std::vector<std::size_t> places_among(const Ranks& ranks) {
  std::vector<std::size_t> places(static_cast<std::size_t>(*std::ranges::max_element(ranks)) + 1);
  for (std::size_t i = 0; i < ranks.size(); ++i) places[static_cast<std::size_t>(ranks[i])] = i;
  return places;
}

/// What a rank without such a buffer has: none.
Slices slices(Slice s) { return s.count == 0 ? Slices{} : Slices{s}; }

/// One rank of each part, the root for its own.
Ranks leaders_of(const std::vector<Ranks>& parts, int root) {
  Ranks leaders;
  for (const Ranks& part : parts) leaders.push_back(std::ranges::find(part, root) == part.end() ? part[0] : root);
  return leaders;
}

}  // namespace

void HierarchicalBuilder::run(Collective collective, std::string_view name, const Ranks& ranks, Slices in, Slices out,
                              bool complete, int root) {
  if (ranks.size() == 1 && !complete) return;
  CollectiveDesc part = desc_;
  part.collective = collective;
  part.root = root;
  if (!complete && desc_.op == ReduceOp::Average) part.op = ReduceOp::Sum;
  const int place = place_in(ranks, rank_);
  // What a part has in place: its only result, or its only contribution, is where the other of the two is.
  Slice mine_in, mine_out;
  if (!in.empty() && !out.empty()) {
    mine_in = in.size() > 1 && out.size() == 1 ? in[static_cast<std::size_t>(place)] : in.front();
    mine_out = out.size() > 1 && in.size() == 1 ? out[static_cast<std::size_t>(place)] : out.front();
  }
  const bool in_place = mine_in.count > 0 && to_.same(mine_in, mine_out);
  const Program program = algorithm(collective, name).build(part, place, count(ranks), in_place);
  embed(to_, program, {ranks, std::move(in), std::move(out)});
}

int HierarchicalBuilder::chunks(const HierarchicalAlgorithm& how, const CollectiveDesc& desc, const Ranks& ranks,
                                std::size_t level) {
  const auto parts = parted(how.levels, ranks, level);
  if (!parts) return count(algorithm(Collective::AllReduce, how.across).build(desc, 0, count(ranks), false).in_class);
  int stripes = 0, all = 0;
  for (const Ranks& part : *parts) stripes = std::max(stripes, count(part));
  for (int s = 0; s < stripes; ++s) {
    Ranks equals;
    for (const Ranks& part : *parts) equals.push_back(at(part, s % count(part)));
    all += chunks(how, desc, equals, level + 1);
  }
  return all;
}

void HierarchicalBuilder::all_reduce(const Ranks& ranks, std::size_t level, const Slices& in, const Slices& out) {
  const auto parts = parts_of(ranks, level);
  if (!parts) return run(Collective::AllReduce, how_.across, ranks, in, out, true);
  struct Stripe {
    int first = 0, chunks = 0;
  };
  std::vector<Stripe> stripes;
  int most = 0;
  for (int s = 0, first = 0; s < parts->stripes; ++s) {
    stripes.push_back({first, chunks(how_, desc_, parts->equals(s), level + 1)});
    first += stripes.back().chunks;
    most = std::max(most, stripes.back().chunks);
  }
  const Ranks& own = parts->own();
  const auto chunk_of = [&](const Slices& of, int wave, int place, int c) -> Slice {
    const int s = wave * count(own) + place;
    if (s >= parts->stripes || c >= stripes[static_cast<std::size_t>(s)].chunks) return {};
    return of[static_cast<std::size_t>(stripes[static_cast<std::size_t>(s)].first + c)];
  };
  const auto inside = [&](Collective collective) {
    for (int wave = 0; wave < parts->waves(); ++wave) {
      for (int c = 0; c < most; ++c) {
        Slices many;
        const bool scatters = collective == Collective::ReduceScatter;
        for (int place = 0; place < count(own); ++place) many.push_back(chunk_of(scatters ? in : out, wave, place, c));
        const Slices mine{chunk_of(out, wave, parts->place, c)};
        scatters ? run(collective, how_.inside, own, many, mine, false)
                 : run(collective, how_.inside, own, mine, many, false);
      }
    }
  };
  inside(Collective::ReduceScatter);
  for (int s = 0; s < parts->stripes; ++s) {
    if (!parts->carries(s)) continue;
    const auto [first, chunks] = stripes[static_cast<std::size_t>(s)];
    const auto piece = [first, chunks](const Slices& of) {
      return Slices(of.begin() + first, of.begin() + first + chunks);
    };
    all_reduce(parts->equals(s), level + 1, piece(own.size() == 1 ? in : out), piece(out));
  }
  inside(Collective::AllGather);
}

/// The blocks that a stripe's carriers own themselves: absent where a part has not so many ranks.
void HierarchicalBuilder::all_gather(const Ranks& ranks, std::size_t level, Slice in, const Slices& out) {
  const auto parts = parts_of(ranks, level);
  if (!parts) return run(Collective::AllGather, how_.across, ranks, {in}, out, false);
  const std::vector<std::size_t> places = places_among(ranks);
  const auto block_of = [&](int part, int place) -> Slice {
    const Ranks& some = parts->all[static_cast<std::size_t>(part)];
    if (place >= count(some)) return {};
    return out[places[static_cast<std::size_t>(at(some, place))]];
  };
  const Ranks& own = parts->own();
  for (int s = 0; s < parts->stripes; ++s) {
    if (!parts->carries(s)) continue;
    Slices blocks;
    for (int p = 0; p < count(parts->all); ++p) blocks.push_back(block_of(p, s));
    all_gather(parts->equals(s), level + 1, s == parts->place ? in : Slice{}, blocks);
  }
  for (int p = 0; p < count(parts->all); ++p) {
    for (int wave = 0; wave < parts->waves(); ++wave) {
      Slices blocks;
      for (int place = 0; place < count(own); ++place) blocks.push_back(block_of(p, wave * count(own) + place));
      Slice& mine = blocks[static_cast<std::size_t>(parts->place)];
      if (p == parts->mine && wave == 0) mine = in;  // which has been copied where it belongs
      run(Collective::AllGather, how_.inside, own, {mine}, blocks, false);
    }
  }
}

void HierarchicalBuilder::reduce_scatter(const Ranks& ranks, std::size_t level, const Slices& in, Slice out) {
  const auto parts = parts_of(ranks, level);
  if (!parts) return run(Collective::ReduceScatter, how_.across, ranks, in, {out}, true);
  const Ranks& own = parts->own();
  const std::vector<std::size_t> places = places_among(ranks);
  const auto block_of = [&](int part, int place) -> Slice {
    const Ranks& some = parts->all[static_cast<std::size_t>(part)];
    if (place >= count(some)) return {};
    return in[places[static_cast<std::size_t>(at(some, place))]];
  };
  // This part's sums of the blocks that this rank carries, by stripe and part.
  std::vector<Slices> sums(static_cast<std::size_t>(parts->stripes));
  for (int wave = 0; wave < parts->waves(); ++wave) {
    for (int p = 0; p < count(parts->all); ++p) {
      Slices blocks;
      for (int place = 0; place < count(own); ++place) blocks.push_back(block_of(p, wave * count(own) + place));
      const Slice mine = blocks[static_cast<std::size_t>(parts->place)];
      Slice sum = mine;
      if (own.size() > 1 && mine.count > 0) sum = p == parts->mine ? out : to_.scratch_like(mine);
      run(Collective::ReduceScatter, how_.inside, own, blocks, {sum}, false);
      const int stripe = wave * count(own) + parts->place;
      if (stripe < parts->stripes) sums[static_cast<std::size_t>(stripe)].push_back(sum);
    }
  }
  for (int s = 0; s < parts->stripes; ++s) {
    if (!parts->carries(s)) continue;
    reduce_scatter(parts->equals(s), level + 1, sums[static_cast<std::size_t>(s)], s == parts->place ? out : Slice{});
  }
}

void HierarchicalBuilder::broadcast(const Ranks& ranks, std::size_t level, int root, Slice in, Slice out) {
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

void HierarchicalBuilder::reduce(const Ranks& ranks, std::size_t level, int root, Slice in, Slice out) {
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
