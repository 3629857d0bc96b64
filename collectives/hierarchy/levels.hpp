#pragma once

#include <span>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// Which ranks of a group are near each other: partitions of them, each coarser than the one before (NUMA nodes, then
/// hosts). Equal on all ranks.
struct SINEW_API Levels {
  /// By level, the nearest first: the number of each rank's part.
  std::vector<std::vector<int>> part_of;

  /// `ranks` by their parts at a level, in the order of the parts' first ranks.
  std::vector<std::vector<int>> parts(std::size_t level, std::span<const int> ranks) const;
  /// Without the levels that tell nothing: all ranks in one part, each in a part of its own, or as at the level before.
  Levels without_idle() const;
  /// Are all parts of a level as many ranks side by side, a power of two of them (the last one fewer)? Then each is a
  /// node of the canonical tree (core/numeric/canonical_tree.hpp).
  bool are_aligned_blocks() const;

  friend bool operator==(const Levels&, const Levels&) = default;
};

}  // namespace sinew
