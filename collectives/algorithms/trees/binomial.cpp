#include <algorithm>

#include <sinew/collectives/algorithms/families.hpp>
#include <sinew/collectives/algorithms/trees/binomial_tree.hpp>
#include <sinew/collectives/schedule/builder.hpp>

namespace sinew {
namespace {

/// Sums go by the canonical tree, whoever the root is: a block of 1, 2, 4, ... ranks, aligned, leaves its sum with its
/// first rank, or with the root where that is one of them.
class AlignedBlocks {
 public:
  AlignedBlocks(int ranks, int root) : ranks_(ranks), root_(root) {}

  /// Of the block of `width` ranks that `rank` is in.
  int leader(int rank, int width) const {
    const int first = rank / width * width;
    return root_ >= first && root_ < first + width ? root_ : first;
  }
  /// Of the other half of twice that block; below 0: nobody is there.
  int sibling(int rank, int width) const {
    const int first = (rank / width * width) ^ width;
    return first < ranks_ ? leader(first, width) : -1;
  }
  /// From how many others it takes.
  int receives(int rank) const {
    int messages = 0;
    for (int width = 1; width < ranks_ && leader(rank, width) == rank; width *= 2) {
      if (sibling(rank, width) >= 0 && leader(rank, 2 * width) == rank) ++messages;
    }
    return messages;
  }

 private:
  int ranks_;
  int root_;
};

/// Adds what its siblings' leaders send to `in`; the root ends with all of it in `sum`, the others pass theirs on.
void sum_up(ProgramBuilder& b, int rank, int ranks, int root, Slice in, Slice sum) {
  const AlignedBlocks blocks(ranks, root);
  Slice have = in;
  for (int width = 1; width < ranks; width *= 2) {
    const int other = blocks.sibling(rank, width);
    if (other < 0) continue;
    const int leader = blocks.leader(rank, 2 * width);
    if (leader != rank) return b.send(leader, have);
    const bool last = rank == root && 2 * width >= ranks;
    b.recv_reduce(other, sum, have, last ? Sum::Complete : Sum::Partial);
    have = sum;
  }
  if (ranks == 1) b.copy(sum, in, Sum::Complete);
}

/// Takes `data` from the parent and passes it on, the largest subtree first.
void pass_down(ProgramBuilder& b, const BinomialTree& tree, Slice data) {
  if (!tree.at_root()) b.recv(tree.parent(), data);
  for (int d = tree.reach / 2; d > 0; d /= 2) {
    if (tree.node + d < tree.ranks) b.send(tree.rank_of(tree.node + d), data);
  }
}

Program broadcast(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  const BinomialTree tree(rank, ranks, desc.root);
  pass_down(b, tree, tree.at_root() ? b.in() : b.out());
  if (tree.at_root()) b.copy(b.out(), b.in());
  return b.build();
}

Program reduce(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  const bool passes_on = rank != desc.root && AlignedBlocks(ranks, desc.root).receives(rank) > 0;
  sum_up(b, rank, ranks, desc.root, b.in(), passes_on ? b.scratch_like(b.in()) : b.out());
  return b.build();
}

Program all_reduce(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  sum_up(b, rank, ranks, 0, b.in(), b.out());
  pass_down(b, BinomialTree(rank, ranks, 0), b.out());
  return b.build();
}

/// Down, messages to different children do not wait for one another; up, the sums of one rank do.
AlgorithmCost broadcast_cost(const CollectiveDesc&, int ranks) {
  const double depth = floor_log2(ranks);
  return {.rounds = depth,
          .sent = static_cast<double>(ceil_log2(ranks)),
          .received = ranks > 1 ? 1.0 : 0.0,
          .serial = depth,
          .pipelined = true};
}

/// The first rank sums up all before the root's block; nobody takes more than it and the root.
AlgorithmCost reduce_cost(const CollectiveDesc& desc, int ranks) {
  const double depth = ceil_log2(ranks);
  const AlignedBlocks blocks(ranks, desc.root);
  const double received = std::max(blocks.receives(0), blocks.receives(desc.root));
  return {.rounds = depth,
          .sent = ranks > 1 ? 1.0 : 0.0,
          .received = received,
          .serial = depth,
          .reduced = received,
          .scratch = ranks > 3 || (ranks == 3 && desc.root == 2) ? 1.0 : 0.0,
          .pipelined = true};
}

AlgorithmCost all_reduce_cost(const CollectiveDesc&, int ranks) {
  const double up = ceil_log2(ranks);
  const double both = up + floor_log2(ranks);
  return {.rounds = both, .sent = up, .received = up, .serial = both, .reduced = up};
}

constexpr Algorithm kBinomial[] = {{"binomial", Collective::AllReduce, any_ranks_in_order, all_reduce, all_reduce_cost},
                                   {"binomial", Collective::Broadcast, any_ranks, broadcast, broadcast_cost},
                                   {"binomial", Collective::Reduce, any_ranks_in_order, reduce, reduce_cost}};

}  // namespace

std::span<const Algorithm> binomial_family() noexcept { return kBinomial; }

}  // namespace sinew
