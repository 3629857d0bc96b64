#include <vector>

#include <sinew/collectives/algorithms/families.hpp>
#include <sinew/collectives/schedule/builder.hpp>

namespace sinew {
namespace {

/// A rank's neighbours in one of two binary trees below the root. Both have the same shape: node v of 1..n, in order,
/// so that odd nodes are leaves. The second tree counts the ranks from the other end (n even) or one further (n odd):
/// who is an odd node in one of them is even in the other or a leaf in both, and nobody has children in two. Source:
/// Sanders, Speck and Traeff, Two-tree algorithms for full bandwidth broadcast, reduction and scan, 2009.
class Tree {
 public:
  Tree(int which, int rank, int ranks, int root) : second_(which == 1), n_(ranks - 1), root_(root), ranks_(ranks) {
    const int label = (rank - root + ranks) % ranks;
    if (label == 0) {
      if (n_ > 0) children_.push_back(rank_of(1 << floor_log2(n_)));
      return;
    }
    const int v = other_count(label, 1);
    const int low = v & -v;
    const int above = (v ^ low) | 2 * low;
    parent_ = rank_of(above <= n_ ? above : v ^ low);
    int d = low / 2;
    while (d > 0 && v + d > n_) d /= 2;
    if (d > 0) children_.push_back(rank_of(v + d));
    if (low > 1) children_.push_back(rank_of(v - low / 2));
  }

  bool at_root() const { return parent_ < 0; }
  int parent() const { return parent_; }
  /// The one that is done first comes first: the subtree to the left is full, the one to the right often is not.
  const std::vector<int>& children() const { return children_; }

 private:
  /// From a rank's distance to the root to its node (step 1) or back (step -1).
  int other_count(int v, int step) const {
    if (!second_) return v;
    return n_ % 2 == 0 ? n_ + 1 - v : (v - 1 + step + n_) % n_ + 1;
  }
  int rank_of(int v) const { return ((v == 0 ? 0 : other_count(v, -1)) + root_) % ranks_; }

  bool second_;
  int n_;
  int root_;
  int ranks_;
  int parent_ = -1;
  std::vector<int> children_;
};

/// Adds what the children send to `in`; the root ends with all of it in `sum`, the others pass theirs on.
void sum_up(ProgramBuilder& b, const Tree& tree, Slice in, Slice sum) {
  Slice have = in;
  for (const int child : tree.children()) {
    b.recv_reduce(child, sum, have, tree.at_root() ? Sum::Complete : Sum::Partial);
    have = sum;
  }
  if (!tree.at_root()) {
    b.send(tree.parent(), have);
  } else if (tree.children().empty()) {
    b.copy(sum, in, Sum::Complete);
  }
}

void pass_down(ProgramBuilder& b, const Tree& tree, Slice data) {
  if (!tree.at_root()) b.recv(tree.parent(), data);
  for (auto child = tree.children().rbegin(); child != tree.children().rend(); ++child) b.send(*child, data);
}

Program broadcast(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place, 2);
  for (const int half : {0, 1}) {
    const Tree tree(half, rank, ranks, desc.root);
    pass_down(b, tree, tree.at_root() ? b.in(half) : b.out(half));
    if (tree.at_root()) b.copy(b.out(half), b.in(half));
  }
  return b.build();
}

Program reduce(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place, 2);
  for (const int half : {0, 1}) {
    const Tree tree(half, rank, ranks, desc.root);
    const bool needs_scratch = !tree.at_root() && !tree.children().empty();
    sum_up(b, tree, b.in(half), needs_scratch ? b.scratch_like(b.in(half)) : b.out(half));
  }
  return b.build();
}

Program all_reduce(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place, 2);
  for (const int half : {0, 1}) {
    const Tree tree(half, rank, ranks, 0);
    sum_up(b, tree, b.in(half), b.out(half));
    pass_down(b, tree, b.out(half));
  }
  return b.build();
}

int rounds_down(int ranks) { return ranks < 2 ? 0 : floor_log2(ranks - 1) + 1; }

/// A node takes from one child after the other; only in a full tree both are ready at the same time.
int rounds_up(int ranks) {
  if (ranks < 3) return ranks - 1;
  return 2 * floor_log2(ranks - 1) + (floor_log2(ranks) == ceil_log2(ranks) ? 1 : 0);
}

AlgorithmCost broadcast_cost(const CollectiveDesc&, int ranks) {
  const double depth = rounds_down(ranks);
  const double whole = ranks > 1 ? 1 : 0;
  return {.rounds = depth, .sent = whole, .received = whole, .serial = depth / 2};
}

/// From four ranks on some node has two children.
double fan(int ranks) { return ranks > 3 ? 2 : 1; }

AlgorithmCost reduce_cost(const CollectiveDesc&, int ranks) {
  const double depth = rounds_up(ranks);
  const double whole = ranks > 1 ? 1 : 0;
  return {.rounds = depth,
          .sent = whole,
          .received = whole,
          .serial = depth / 2,
          .fan = fan(ranks),
          .reduced = whole,
          .scratch = ranks > 2 ? 0.5 : 0.0};
}

AlgorithmCost all_reduce_cost(const CollectiveDesc&, int ranks) {
  const double depth = rounds_up(ranks) + rounds_down(ranks);
  const double moved = ranks > 3 ? 2 : (ranks > 1 ? ranks / 2.0 : 0);
  return {.rounds = depth,
          .sent = moved,
          .received = moved,
          .serial = depth / 2,
          .fan = fan(ranks),
          .reduced = ranks > 1 ? 1.0 : 0.0};
}

constexpr Algorithm kDoubleBinaryTree[] = {
    {"double_binary_tree", Collective::AllReduce, any_ranks, all_reduce, all_reduce_cost},
    {"double_binary_tree", Collective::Broadcast, any_ranks, broadcast, broadcast_cost},
    {"double_binary_tree", Collective::Reduce, any_ranks, reduce, reduce_cost}};

}  // namespace

std::span<const Algorithm> double_binary_tree_family() noexcept { return kDoubleBinaryTree; }

}  // namespace sinew
