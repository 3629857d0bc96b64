#include <bit>

#include <sinew/collectives/algorithms/families.hpp>
#include <sinew/collectives/algorithms/trees/binomial_tree.hpp>
#include <sinew/collectives/schedule/builder.hpp>

namespace sinew {
namespace {

// A message carries the parts of a whole subtree in the order of its nodes. The root's buffer is in the order of ranks:
// the one subtree that goes over its end passes through scratch.

/// The parts of `count` nodes from `first` on.
struct Parts {
  int rank = 0;    ///< whose part is the first
  int before = 0;  ///< of them lie before the end of the root's buffer
  int count = 0;

  Parts(const BinomialTree& tree, int first, int count_)
      : rank(tree.rank_of(first)), before(std::min(count_, tree.ranks - rank)), count(count_) {}
  bool wraps() const { return before < count; }
};

Slice scratch_for(ProgramBuilder& b, const BinomialTree& tree, const Parts& parts) {
  Slice run = b.scratch(static_cast<std::uint32_t>(parts.rank));
  for (; run.count < static_cast<std::uint32_t>(parts.count); ++run.count) {
    b.scratch(static_cast<std::uint32_t>((parts.rank + static_cast<int>(run.count)) % tree.ranks));
  }
  return run;
}

void gather_at_root(ProgramBuilder& b, const BinomialTree& tree) {
  b.copy(b.out(tree.root), b.in());
  for (int d = 1; tree.under(d) > 0; d *= 2) {
    const Parts parts(tree, d, tree.under(d));
    const Slice to = parts.wraps() ? scratch_for(b, tree, parts) : b.out(parts.rank, parts.count);
    b.recv(parts.rank, to);
    if (!parts.wraps()) continue;
    b.copy(b.out(parts.rank, parts.before), to.part(0, parts.before));
    b.copy(b.out(0, parts.count - parts.before), to.part(parts.before, parts.count - parts.before));
  }
}

void scatter_from_root(ProgramBuilder& b, const BinomialTree& tree) {
  for (int d = tree.reach / 2; d > 0; d /= 2) {
    if (tree.under(d) == 0) continue;
    const Parts parts(tree, d, tree.under(d));
    Slice from = b.in(parts.rank, parts.count);
    if (parts.wraps()) {
      from = scratch_for(b, tree, parts);
      b.copy(from.part(0, parts.before), b.in(parts.rank, parts.before));
      b.copy(from.part(parts.before, parts.count - parts.before), b.in(0, parts.count - parts.before));
    }
    b.send(parts.rank, from);
  }
  b.copy(b.out(), b.in(tree.root));
}

Program gather(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  b.keep_whole();
  const BinomialTree tree(rank, ranks, desc.root);
  if (tree.at_root()) {
    gather_at_root(b, tree);
  } else if (!tree.has_children()) {
    b.send(tree.parent(), b.in());
  } else {
    const Slice parts = scratch_for(b, tree, Parts(tree, tree.node, tree.under()));
    b.copy(parts.part(0), b.in());
    for (int d = 1; d < tree.reach && tree.under(d) > 0; d *= 2) {
      b.recv(tree.rank_of(tree.node + d), parts.part(d, tree.under(d)));
    }
    b.send(tree.parent(), parts);
  }
  return b.build();
}

Program scatter(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  b.keep_whole();
  const BinomialTree tree(rank, ranks, desc.root);
  if (tree.at_root()) {
    scatter_from_root(b, tree);
  } else if (!tree.has_children()) {
    b.recv(tree.parent(), b.out());
  } else {
    const Slice parts = scratch_for(b, tree, Parts(tree, tree.node, tree.under()));
    b.recv(tree.parent(), parts);
    for (int d = tree.reach / 2; d > 0; d /= 2) {
      if (tree.under(d) > 0) b.send(tree.rank_of(tree.node + d), parts.part(d, tree.under(d)));
    }
    b.copy(b.out(), parts.part(0));
  }
  return b.build();
}

/// Parts that move one after the other on the way from the root to the node that waits longest.
int longest_way(int nodes) {
  if (nodes == 1) return 0;
  const int far = static_cast<int>(std::bit_floor(static_cast<unsigned>(nodes - 1)));
  return std::max(far - 1, nodes - far + longest_way(nodes - far));
}

/// Parts in the largest subtree below the root.
int largest_subtree(int nodes) {
  int largest = 0;
  for (int d = 1; d < nodes; d *= 2) largest = std::max(largest, std::min(d, nodes - d));
  return largest;
}

AlgorithmCost cost(const CollectiveDesc& desc, int ranks) {
  const double all = (ranks - 1.0) / ranks;
  const double one = largest_subtree(ranks) / static_cast<double>(ranks);
  const bool gathers = desc.collective == Collective::Gather;
  return {.rounds = static_cast<double>(floor_log2(ranks)),
          .sent = gathers ? one : all,
          .received = gathers ? all : one,
          .serial = longest_way(ranks) / static_cast<double>(ranks),
          .scratch = ranks > 3 ? one : 0,
          .whole = true};
}

constexpr Algorithm kBinomialParts[] = {{"binomial", Collective::Gather, parts_in_runs, gather, cost},
                                        {"binomial", Collective::Scatter, parts_in_runs, scatter, cost}};

}  // namespace

std::span<const Algorithm> binomial_parts_family() noexcept { return kBinomialParts; }

}  // namespace sinew
