#include <algorithm>
#include <vector>

#include <sinew/collectives/algorithms/families.hpp>
#include <sinew/collectives/schedule/builder.hpp>

namespace sinew {
namespace {

/// Source: Bruck, Ho, Kipnis, Upfal and Weathersby, Efficient algorithms for all-to-all communications in multiport
///         message-passing systems, 1997.
/// block[i] is on its way to the rank i to the right of the one that gave it: in the round of distance d it goes d
/// further if i has that bit.
Program all_to_all(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  b.keep_whole();
  std::vector<Slice> block;
  for (int i = 0; i < ranks; ++i) block.push_back(b.in(b.right(i)));
  for (int d = 1; d < ranks; d *= 2) {
    std::vector<Slice> moving;
    std::vector<Slice> arriving;
    for (int i = d; i < ranks; ++i) {
      if ((i & d) == 0) continue;
      const int giver = b.left(i % (2 * d));
      moving.push_back(block[static_cast<std::size_t>(i)]);
      arriving.push_back(b.scratch(block_class(giver, (giver + i) % ranks, ranks)));
      block[static_cast<std::size_t>(i)] = arriving.back();
    }
    b.send(b.right(d), b.packed(moving));
    b.recv(b.left(d), arriving.front().part(0, static_cast<int>(arriving.size())));
  }
  for (int i = 0; i < ranks; ++i) b.copy(b.out(b.left(i)), block[static_cast<std::size_t>(i)]);
  return b.build();
}

/// Blocks i < ranks that have the bit d.
int with_bit(int d, int ranks) { return ranks / (2 * d) * d + std::max(0, ranks % (2 * d) - d); }

/// Each round waits for the one before, but the last, of distance d, only for those of a distance below ranks - d: no
/// block travels by both otherwise.
AlgorithmCost all_to_all_cost(const CollectiveDesc&, int ranks) {
  if (ranks == 1) return {};
  const int last = 1 << floor_log2(ranks - 1);
  const int missing = ranks - last;
  int before = 0;
  int awaited = 0;
  for (int d = 1; d < last; d *= 2) {
    before += with_bit(d, ranks);
    if (d < missing) awaited = before;
  }
  const double all = ranks;
  const double moved = (before + missing) / all;
  return {.rounds = static_cast<double>(std::max(floor_log2(last), 1 + ceil_log2(missing))),
          .sent = moved,
          .received = moved,
          .serial = std::max(before, awaited + missing) / all,
          .scratch = 2 * moved,
          .whole = true};
}

constexpr Algorithm kBruck[] = {{"bruck", Collective::AllToAll, parts_in_runs, all_to_all, all_to_all_cost}};

}  // namespace

std::span<const Algorithm> bruck_all_to_all_family() noexcept { return kBruck; }

}  // namespace sinew
