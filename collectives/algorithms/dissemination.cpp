#include <algorithm>

#include <sinew/collectives/algorithms/families.hpp>
#include <sinew/collectives/schedule/builder.hpp>

namespace sinew {
namespace {

/// A barrier gathers one token of zero bytes from every rank: Out chunk k holds that of the rank k to the left, and
/// the tokens at hand double with every round.
/// Source: Hensgen, Finkel and Manber, Two algorithms for barrier synchronization, 1988.
Program barrier(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  b.keep_whole();
  b.copy(b.out(), b.in());
  for (int have = 1; have < ranks; have *= 2) {
    const int more = std::min(have, ranks - have);
    b.send(b.right(have), have == 1 ? b.in() : b.out(0, more));
    b.recv(b.left(have), b.out(have, more));
  }
  return b.build();
}

/// The last round passes on only the tokens that are still missing, and so waits only for the rounds that brought
/// those.
AlgorithmCost cost(const CollectiveDesc&, int ranks) {
  const int doublings = floor_log2(ranks);
  const int missing = ranks - (1 << doublings);
  const int last = missing > 0 ? ceil_log2(missing) + 1 : 0;
  return {.rounds = static_cast<double>(std::max(doublings, last)), .whole = true};
}

constexpr Algorithm kDissemination[] = {{"dissemination", Collective::Barrier, any_ranks, barrier, cost}};

}  // namespace

std::span<const Algorithm> dissemination_family() noexcept { return kDissemination; }

}  // namespace sinew
