#include <vector>

#include <sinew/collectives/algorithms/families.hpp>
#include <sinew/collectives/schedule/builder.hpp>
#include <sinew/collectives/schedule/cells.hpp>
#include <sinew/core/call/determinism.hpp>
#include <sinew/core/numeric/canonical_tree.hpp>

namespace sinew {
namespace {

/// Receives from everyone and adds up by the canonical tree.
void sum_by_tree(ProgramBuilder& b, Slice mine, int ranks, Slice sum) {
  std::vector<Slice> part(static_cast<std::size_t>(ranks), mine);
  for (int s = 1; s < ranks; ++s) {
    const int peer = b.left(s);
    Slice& theirs = part[static_cast<std::size_t>(peer)];
    theirs = b.scratch_like(mine);
    b.recv(peer, theirs);
  }
  if (ranks == 1) b.copy(sum, mine, Sum::Complete);
  const auto leaf = [&part](int r) { return part[static_cast<std::size_t>(r)]; };
  int nodes = ranks - 1;
  over_canonical_tree(0, ranks, leaf, [&](Slice left, Slice right) {
    const bool root = --nodes == 0;
    const Slice to = root ? sum : left.space == Space::Scratch ? left : right;  // one of the two is not this rank's
    b.reduce(to, left, right, root ? Sum::Complete : Sum::Partial);
    return to;
  });
}

Program all_reduce(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  for (int s = 1; s < ranks; ++s) b.send(b.right(s), b.in());
  sum_by_tree(b, b.in(), ranks, b.out());
  return b.build();
}

/// Everybody sums a chunk and gives it to all. Source: the two shots of custom all-reduce kernels on GPUs.
Program two_shot(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place, ranks);
  for (int s = 1; s < ranks; ++s) b.send(b.right(s), b.in(b.right(s)));
  sum_by_tree(b, b.in(rank), ranks, b.out(rank));
  for (int s = 1; s < ranks; ++s) {
    b.send(b.right(s), b.out(rank));
    b.recv(b.left(s), b.out(b.left(s)));
  }
  return b.build();
}

Program reduce_scatter(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  for (int s = 1; s < ranks; ++s) b.send(b.right(s), b.in(b.right(s)));
  sum_by_tree(b, b.in(rank), ranks, b.out());
  return b.build();
}

Program reduce(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  if (rank == desc.root) {
    sum_by_tree(b, b.in(), ranks, b.out());
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
          .scratch = reduces(c) ? others * message : 0,
          .pipelined = to_root || from_root};
}

AlgorithmCost whole_cost(const CollectiveDesc& desc, int ranks) { return cost_of(desc, ranks, true); }
AlgorithmCost parts_cost(const CollectiveDesc& desc, int ranks) { return cost_of(desc, ranks, false); }

AlgorithmCost two_shot_cost(const CollectiveDesc&, int ranks) {
  if (ranks == 1) return {};
  const double part = (ranks - 1.0) / ranks;
  return {.rounds = 2, .sent = 2 * part, .received = 2 * part, .serial = 2.0 / ranks, .reduced = part, .scratch = part};
}

/// A ring moves as little and has two neighbours where this has everybody, but only this keeps to the tree.
Availability where_order_is_needed(const CollectiveDesc& desc, int ranks) {
  if (needs_canonical_order(desc, ranks)) return Availability::yes();
  return Availability::no("meets everybody twice, which only the canonical order of sums is worth");
}

constexpr Algorithm kDirect[] = {{"direct", Collective::AllReduce, any_ranks_in_order, all_reduce, whole_cost},
                                 {"direct", Collective::AllGather, any_ranks, all_gather, parts_cost},
                                 {"direct", Collective::ReduceScatter, any_ranks_in_order, reduce_scatter, parts_cost},
                                 {"direct", Collective::Broadcast, any_ranks, broadcast, whole_cost},
                                 {"direct", Collective::Reduce, any_ranks_in_order, reduce, whole_cost},
                                 {"direct", Collective::Gather, any_ranks, gather, parts_cost},
                                 {"direct", Collective::Scatter, any_ranks, scatter, parts_cost},
                                 {"two_shot", Collective::AllReduce, where_order_is_needed, two_shot, two_shot_cost}};

}  // namespace

std::span<const Algorithm> direct_family() noexcept { return kDirect; }

}  // namespace sinew
