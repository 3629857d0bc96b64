#pragma once

#include <span>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew::shm {

/// One rank's place in a tree: partial results go up to the parent, results come down to the children.
struct Tree {
  int parent = -1;  ///< -1: the root
  std::vector<int> children;
};

inline constexpr int kFanIn = 4;

/// Ranks near the same memory (equal `domains`) form a tree of their own, and one of each, the root in its own, a tree
/// above these: every line crosses between two domains once. No rank has more than `fan` children in either.
/// The idea is that of hierarchical barriers (Mellor-Crummey and Scott 1991) and of Open MPI's xhc.
SINEW_API Tree tree_of(int rank, int root, std::span<const int> domains, int fan = kFanIn);

/// Steps from the leaves of so many ranks to the root, where all are in one domain.
SINEW_API int tree_levels(int ranks, int fan = kFanIn) noexcept;

}  // namespace sinew::shm
