#include <vector>

#include <sinew/collectives/algorithms/families.hpp>
#include <sinew/collectives/schedule/builder.hpp>

namespace sinew {
namespace {

/// Step s: give to the rank s to the right, take from the rank s to the left.
/// In place what arrives waits aside until everything of this rank's input is gone.
Program exchange(const CollectiveDesc& desc, int rank, int ranks, bool in_place, bool in_turns) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  b.copy(b.out(rank), b.in(rank));
  std::vector<Slice> arrived(static_cast<std::size_t>(ranks));
  for (int s = 1; s < ranks; ++s) {
    const int to = b.right(s);
    const int from = b.left(s);
    Slice& theirs = arrived[static_cast<std::size_t>(from)];
    theirs = b.same(b.in(from), b.out(from)) ? b.scratch_like(b.out(from)) : b.out(from);
    b.send(to, b.in(to));
    b.recv(from, theirs);
    if (in_turns) b.turn();
  }
  for (int s = 1; s < ranks; ++s) {
    const int from = b.left(s);
    b.copy(b.out(from), arrived[static_cast<std::size_t>(from)]);
  }
  return b.build();
}

Program pairwise(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  return exchange(desc, rank, ranks, in_place, true);
}

Program direct(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  return exchange(desc, rank, ranks, in_place, false);
}

AlgorithmCost pairwise_cost(const CollectiveDesc&, int ranks) {
  const double part = (ranks - 1.0) / ranks;
  return {.rounds = ranks - 1.0, .sent = part, .received = part, .serial = part, .scratch = part};
}

AlgorithmCost direct_cost(const CollectiveDesc&, int ranks) {
  if (ranks == 1) return {};
  const double part = (ranks - 1.0) / ranks;
  return {.rounds = 1, .sent = part, .received = part, .serial = 1.0 / ranks, .scratch = part};
}

constexpr Algorithm kPairwise[] = {{"pairwise", Collective::AllToAll, any_ranks, pairwise, pairwise_cost},
                                   {"direct", Collective::AllToAll, any_ranks, direct, direct_cost}};

}  // namespace

std::span<const Algorithm> pairwise_family() noexcept { return kPairwise; }

}  // namespace sinew
