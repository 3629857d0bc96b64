#include <algorithm>

#include <sinew/collectives/algorithms/families.hpp>
#include <sinew/collectives/schedule/builder.hpp>

namespace sinew {
namespace {

/// A reduce-scatter, then an all-gather, both by passing chunks to the right.
/// Source: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, 2009.
Program all_reduce(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place, ranks);
  if (ranks == 1) b.copy(b.out(), b.in(), Sum::Complete);
  for (int s = 0; s < ranks - 1; ++s) {
    const int take = b.left(s + 1);
    b.send(b.right(1), s == 0 ? b.in(rank) : b.out(b.left(s)));
    b.recv_reduce(b.left(1), b.out(take), b.in(take), s == ranks - 2 ? Sum::Complete : Sum::Partial);
  }
  for (int s = 0; s < ranks - 1; ++s) {
    b.send(b.right(1), b.out(b.left(s - 1)));
    b.recv(b.left(1), b.out(b.left(s)));
  }
  return b.build();
}

Program reduce_scatter(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  Slice sum = b.in(b.left(1));
  if (ranks == 1) b.copy(b.out(), b.in(), Sum::Complete);
  for (int s = 0; s < ranks - 1; ++s) {
    const Slice mine = b.in(b.left(s + 2));
    b.send(b.right(1), sum);
    sum = s == ranks - 2 ? b.out() : b.scratch_like(mine);
    b.recv_reduce(b.left(1), sum, mine, s == ranks - 2 ? Sum::Complete : Sum::Partial);
  }
  return b.build();
}

Program all_gather(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  b.copy(b.out(rank), b.in());
  for (int s = 0; s < ranks - 1; ++s) {
    b.send(b.right(1), s == 0 ? b.in() : b.out(b.left(s)));
    b.recv(b.left(1), b.out(b.left(s + 1)));
  }
  return b.build();
}

/// The reduce-scatter on parts of the message, then every rank gives the root the part it has summed up.
Program reduce(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place, ranks);
  const bool root = rank == desc.root;
  if (ranks == 1) b.copy(b.out(), b.in(), Sum::Complete);
  Slice sum = b.in(rank);
  for (int s = 0; s < ranks - 1; ++s) {
    const int take = b.left(s + 1);
    b.send(b.right(1), sum);
    const bool complete = s == ranks - 2;
    sum = complete && root ? b.out(take) : b.scratch_like(b.in(take));
    b.recv_reduce(b.left(1), sum, b.in(take), complete ? Sum::Complete : Sum::Partial);
  }
  if (!root && ranks > 1) b.send(desc.root, sum);
  for (int s = 1; root && s < ranks; ++s) b.recv(b.right(s), b.out(b.right(s + 1)));
  return b.build();
}

AlgorithmCost reduce_cost(const CollectiveDesc&, int ranks) {
  if (ranks == 1) return {};
  const double all = ranks, part = (all - 1) / all;
  return {.rounds = all, .sent = 1, .received = 2 * part, .serial = 1, .reduced = part, .scratch = part};
}

AlgorithmCost cost(const CollectiveDesc& desc, int ranks) {
  const double part = (ranks - 1.0) / ranks, passes = desc.collective == Collective::AllReduce ? 2 : 1;
  return {.rounds = passes * (ranks - 1),
          .sent = passes * part,
          .received = passes * part,
          .serial = passes * part,
          .reduced = reduces(desc.collective) ? part : 0,
          .scratch = desc.collective == Collective::ReduceScatter ? std::max(0.0, ranks - 2.0) / ranks : 0};
}

constexpr Algorithm kRing[] = {{"ring", Collective::AllReduce, any_ranks, all_reduce, cost},
                               {"ring", Collective::AllGather, any_ranks, all_gather, cost},
                               {"ring", Collective::ReduceScatter, any_ranks, reduce_scatter, cost},
                               {"ring", Collective::Reduce, any_ranks, reduce, reduce_cost}};
}  // namespace

std::span<const Algorithm> ring_family() noexcept { return kRing; }

}  // namespace sinew
