#pragma once

#include <span>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew::shm {

/// The tree as one rank sees it. Partial results go up to the parent. Results come down to the children.
struct Tree {
  int parent = -1;  ///< -1: this rank is the root
  std::vector<int> children;
};

/// The most children that a rank has in a tree.
inline constexpr int kFanIn = 4;

/// Returns the tree as `rank` sees it. `domains` has a number for each rank, which is equal for ranks near the same
/// memory. The ranks of a domain form a tree. One rank of each domain, which is `root` in its own, joins a tree above
/// these. So data cross between two domains once.
/// Source: Mellor-Crummey and Scott 1991 (hierarchical barriers); Open MPI's xhc.
SINEW_API Tree tree_of(int rank, int root, std::span<const int> domains);

/// The number of steps from the leaves to the root if all of these ranks are in one domain.
SINEW_API int tree_levels(int ranks) noexcept;

}  // namespace sinew::shm
