#include <sinew/collectives/algorithms/families.hpp>
#include <sinew/collectives/schedule/builder.hpp>

namespace sinew {
namespace {

/// Beginning with the root, each rank passes the data to its right neighbour. This is slow for one segment. With many
/// segments in flight all links are busy at the same time, and each link carries every byte once.
Program broadcast(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  const int place = (rank - desc.root + ranks) % ranks;
  const Slice data = place == 0 ? b.in() : b.out();
  if (place > 0) b.recv(b.left(1), data);
  if (place + 1 < ranks) b.send(b.right(1), data);
  b.copy(b.out(), data);
  return b.build();
}

/// The other way round: sums on their way to the root.
Program reduce(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  const int place = (rank - desc.root + ranks) % ranks;
  if (ranks == 1) b.copy(b.out(), b.in(), Sum::Complete);
  Slice sum = b.in();
  if (place + 1 < ranks) {
    sum = place == 0 ? b.out() : b.scratch_like(b.in());
    b.recv_reduce(b.right(1), sum, b.in(), place == 0 ? Sum::Complete : Sum::Partial);
  }
  if (place > 0) b.send(b.left(1), sum);
  return b.build();
}

AlgorithmCost cost(const CollectiveDesc& desc, int ranks) {
  const double hops = ranks - 1;
  const double whole = hops > 0 ? 1 : 0;
  return {.rounds = hops,
          .sent = whole,
          .received = whole,
          .serial = hops,
          .reduced = reduces(desc.collective) ? whole : 0,
          .scratch = reduces(desc.collective) && ranks > 2 ? 1.0 : 0.0,
          .pipelined = true};
}

constexpr Algorithm kChain[] = {{"chain", Collective::Broadcast, any_ranks, broadcast, cost},
                                {"chain", Collective::Reduce, any_ranks, reduce, cost}};

}  // namespace

std::span<const Algorithm> chain_family() noexcept { return kChain; }

}  // namespace sinew
