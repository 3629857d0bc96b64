// Collectives in which every rank owns a block.
#include <algorithm>

#include <sinew/collectives/hierarchy/composer.hpp>

namespace sinew {
namespace {

/// By rank, where it is among `ranks`.
std::vector<std::size_t> places_among(const Ranks& ranks) {
  std::vector<std::size_t> places(static_cast<std::size_t>(*std::ranges::max_element(ranks)) + 1);
  for (std::size_t i = 0; i < ranks.size(); ++i) places[static_cast<std::size_t>(ranks[i])] = i;
  return places;
}

}  // namespace

/// The blocks that a stripe's carriers own themselves: absent where a part has not so many ranks.
void Composer::all_gather(const Ranks& ranks, std::size_t level, Slice in, const Slices& out) {
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

void Composer::reduce_scatter(const Ranks& ranks, std::size_t level, const Slices& in, Slice out) {
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

}  // namespace sinew
