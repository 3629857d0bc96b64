#include <sinew/collectives/algorithms/binomial_tree.hpp>
#include <sinew/collectives/algorithms/families.hpp>
#include <sinew/collectives/builder.hpp>

namespace sinew {
namespace {

/// Adds what the children send to `in`, the nearest first; the root ends with all of it in `sum`, the others pass
/// theirs on.
void sum_up(ProgramBuilder& b, const BinomialTree& tree, Slice in, Slice sum) {
  Slice have = in;
  for (int d = 1; d < tree.reach && tree.node + d < tree.ranks; d *= 2) {
    const bool last = tree.at_root() && 2 * d >= tree.ranks;
    b.recv_reduce(tree.rank_of(tree.node + d), sum, have, last ? Sum::Complete : Sum::Partial);
    have = sum;
  }
  if (!tree.at_root()) b.send(tree.parent(), have);
  if (tree.ranks == 1) b.copy(sum, in, Sum::Complete);
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
  const BinomialTree tree(rank, ranks, desc.root);
  const bool needs_scratch = !tree.at_root() && tree.has_children();
  sum_up(b, tree, b.in(), needs_scratch ? b.scratch_like(b.in()) : b.out());
  return b.build();
}

Program all_reduce(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  const BinomialTree tree(rank, ranks, 0);
  sum_up(b, tree, b.in(), b.out());
  pass_down(b, tree, b.out());
  return b.build();
}

/// Down, messages to different children do not wait for one another; up, the sums of one rank do.
AlgorithmCost broadcast_cost(const CollectiveDesc&, int ranks) {
  const double depth = floor_log2(ranks);
  return {.rounds = depth,
          .sent = static_cast<double>(ceil_log2(ranks)),
          .received = ranks > 1 ? 1.0 : 0.0,
          .serial = depth};
}

AlgorithmCost reduce_cost(const CollectiveDesc&, int ranks) {
  const double depth = ceil_log2(ranks);
  return {.rounds = depth,
          .sent = ranks > 1 ? 1.0 : 0.0,
          .received = depth,
          .serial = depth,
          .reduced = depth,
          .scratch = ranks > 3 ? 1.0 : 0.0};
}

AlgorithmCost all_reduce_cost(const CollectiveDesc&, int ranks) {
  const double up = ceil_log2(ranks);
  const double both = up + floor_log2(ranks);
  return {.rounds = both, .sent = up, .received = up, .serial = both, .reduced = up};
}

constexpr Algorithm kBinomial[] = {{"binomial", Collective::AllReduce, any_ranks, all_reduce, all_reduce_cost},
                                   {"binomial", Collective::Broadcast, any_ranks, broadcast, broadcast_cost},
                                   {"binomial", Collective::Reduce, any_ranks, reduce, reduce_cost}};

}  // namespace

std::span<const Algorithm> binomial_family() noexcept { return kBinomial; }

}  // namespace sinew
