#pragma once

#include <algorithm>

namespace sinew {

/// A binomial tree over the ranks counted from the root: node v has the children v + 1, v + 2, v + 4, ... below its
/// lowest set bit, and its parent is v without that bit.
struct BinomialTree {
  int root = 0;
  int node = 0;
  int ranks = 1;
  int reach = 1;  ///< distance to the parent; for the root the first power of two that covers all

  BinomialTree(int rank, int ranks_, int root_) : root(root_), node((rank - root_ + ranks_) % ranks_), ranks(ranks_) {
    while (reach < ranks && (node & reach) == 0) reach *= 2;
  }
  bool has_children() const { return reach > 1 && node + 1 < ranks; }
  bool at_root() const { return node == 0; }
  int rank_of(int v) const { return (v + root) % ranks; }
  int parent() const { return rank_of(node - reach); }
  /// Nodes of the subtree of the child at distance d (a power of two below `reach`): v + d and those after it. 0: no
  /// such child.
  int under(int d) const { return std::clamp(ranks - node - d, 0, d); }
  /// Nodes of this node's own subtree: v and those after it.
  int under() const { return std::min(reach, ranks - node); }
};

}  // namespace sinew
