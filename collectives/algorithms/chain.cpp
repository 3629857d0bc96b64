#include <sinew/collectives/algorithms/families.hpp>
#include <sinew/collectives/builder.hpp>

namespace sinew {
namespace {

/// From the root each rank passes the data to its right neighbour. Slow for one segment, but with many under way every
/// link carries every byte once and all are busy at the same time.
Program broadcast(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  const int place = (rank - desc.root + ranks) % ranks;
  const Slice data = place == 0 ? b.in() : b.out();
  if (place > 0) b.recv(b.left(1), data);
  if (place + 1 < ranks) b.send(b.right(1), data);
  b.copy(b.out(), data);
  return b.build();
}

AlgorithmCost cost(const CollectiveDesc&, int ranks) {
  const double hops = ranks - 1;
  return {.rounds = hops, .sent = hops > 0 ? 1.0 : 0.0, .serial = hops};
}

constexpr Algorithm kChain[] = {{"chain", Collective::Broadcast, any_ranks, broadcast, cost}};

}  // namespace

std::span<const Algorithm> chain_family() noexcept { return kChain; }

}  // namespace sinew
