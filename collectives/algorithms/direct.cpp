#include <vector>

#include <sinew/collectives/algorithms/families.hpp>
#include <sinew/collectives/builder.hpp>
#include <sinew/collectives/cells.hpp>

namespace sinew {
namespace {

/// Receives from everyone and adds up in the order of ranks, so that every rank that does it has the same sum.
void sum_in_rank_order(ProgramBuilder& b, Slice mine, int rank, int ranks) {
  std::vector<Slice> part(static_cast<std::size_t>(ranks), mine);
  for (int s = 1; s < ranks; ++s) {
    const int peer = b.left(s);
    Slice& theirs = part[static_cast<std::size_t>(peer)];
    theirs = b.scratch_like(mine);
    b.recv(peer, theirs);
  }
  if (ranks == 1) b.copy(b.out(), mine, Sum::Complete);
  Slice sum = part[0];
  for (std::size_t p = 1; p < part.size(); ++p) {
    const bool last = p + 1 == part.size();
    const Slice to = last ? b.out() : part[rank == 0 ? 1 : 0];
    b.reduce(to, sum, part[p], last ? Sum::Complete : Sum::Partial);
    sum = to;
  }
}

Program all_reduce(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  for (int s = 1; s < ranks; ++s) b.send(b.right(s), b.in());
  sum_in_rank_order(b, b.in(), rank, ranks);
  return b.build();
}

Program reduce_scatter(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  for (int s = 1; s < ranks; ++s) b.send(b.right(s), b.in(b.right(s)));
  sum_in_rank_order(b, b.in(rank), rank, ranks);
  return b.build();
}

Program reduce(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  if (rank == desc.root) {
    sum_in_rank_order(b, b.in(), rank, ranks);
  } else {
    b.send(desc.root, b.in());
  }
  return b.build();
}

Program all_gather(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  b.copy(b.out(rank), b.in());
  for (int s = 1; s < ranks; ++s) {
    b.send(b.right(s), b.in());
    b.recv(b.left(s), b.out(b.left(s)));
  }
  return b.build();
}

Program broadcast(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  if (rank != desc.root) {
    b.recv(desc.root, b.out());
    return b.build();
  }
  for (int s = 1; s < ranks; ++s) b.send(b.right(s), b.in());
  b.copy(b.out(), b.in());
  return b.build();
}

Program gather(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  if (rank != desc.root) {
    b.send(desc.root, b.in());
    return b.build();
  }
  for (int s = 1; s < ranks; ++s) b.recv(b.right(s), b.out(b.right(s)));
  b.copy(b.out(rank), b.in());
  return b.build();
}

Program scatter(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  if (rank != desc.root) {
    b.recv(desc.root, b.out());
    return b.build();
  }
  for (int s = 1; s < ranks; ++s) b.send(b.right(s), b.in(b.right(s)));
  b.copy(b.out(), b.in(rank));
  return b.build();
}

/// One message between each two, or between each and the root, all at the same time. `whole`: a message is the whole
/// buffer, not one part of it per rank.
AlgorithmCost cost_of(const CollectiveDesc& desc, int ranks, bool whole) {
  const double others = ranks - 1;
  const double message = others == 0 ? 0 : whole ? 1 : 1.0 / ranks;
  const Collective c = plain_form(desc.collective);
  const bool to_root = c == Collective::Reduce || c == Collective::Gather;
  const bool from_root = is_from_root(c);
  return {.rounds = others > 0 ? 1.0 : 0.0,
          .sent = to_root ? message : others * message,
          .received = from_root ? message : others * message,
          .serial = message,
          .reduced = reduces(c) ? others * message : 0,
          .scratch = reduces(c) ? others * message : 0};
}

AlgorithmCost whole_cost(const CollectiveDesc& desc, int ranks) { return cost_of(desc, ranks, true); }
AlgorithmCost parts_cost(const CollectiveDesc& desc, int ranks) { return cost_of(desc, ranks, false); }

constexpr Algorithm kDirect[] = {{"direct", Collective::AllReduce, any_ranks, all_reduce, whole_cost},
                                 {"direct", Collective::AllGather, any_ranks, all_gather, parts_cost},
                                 {"direct", Collective::ReduceScatter, any_ranks, reduce_scatter, parts_cost},
                                 {"direct", Collective::Broadcast, any_ranks, broadcast, whole_cost},
                                 {"direct", Collective::Reduce, any_ranks, reduce, whole_cost},
                                 {"direct", Collective::Gather, any_ranks, gather, parts_cost},
                                 {"direct", Collective::Scatter, any_ranks, scatter, parts_cost}};

}  // namespace

std::span<const Algorithm> direct_family() noexcept { return kDirect; }

}  // namespace sinew
