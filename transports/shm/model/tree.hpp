#pragma once

#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/transports/shm/model/levels.hpp>

namespace sinew::shm {

/// The tree as one rank sees it. Partial results go up to the parent. Results come down to the children.
struct Tree {
  int parent = -1;  ///< -1: this rank is the root
  std::vector<int> children;
};

/// The most children that a rank has in one level of a tree. A rank combines what all of its children show, so long
/// calls have fewer.
inline constexpr int kFanIn = 4;
inline constexpr int kLongFanIn = 2;

/// Returns the tree as `rank` sees it. The ranks of each innermost domain form a tree. One rank leads each domain:
/// `root` in its own domains, the lowest rank in others. The leaders within a domain of the next level form a tree
/// above these, and so on to the group. So data enter and leave each domain of each level once.
/// Source: Mellor-Crummey and Scott 1991 (hierarchical barriers); Katevenis and others 2022 (Open MPI's xhc), which has
/// levels by caches, NUMA nodes and sockets.
SINEW_API Tree tree_of(int rank, int root, const Levels& levels, int fan_in = kFanIn);

/// The number of steps from the leaves to the root of a tree over so many members of one level.
SINEW_API int tree_steps(int members, int fan_in = kFanIn) noexcept;

}  // namespace sinew::shm
