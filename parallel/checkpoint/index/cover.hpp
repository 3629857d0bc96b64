#pragma once

#include <cstdint>
#include <vector>

#include <sinew/parallel/checkpoint/index/item.hpp>

namespace sinew::parallel {

/// An extent and the rank that holds it.
struct HeldExtent {
  Extent extent;
  int rank = 0;
};

/// Proves that each element of the item is in exactly one of these extents.
/// Errors: InvalidArgument naming the item, the first elements that are in no extent or in two, and the ranks of those.
/// Cost:   a sort of all runs.
void require_covered(const CheckpointItem& item, const std::vector<HeldExtent>& extents);

}  // namespace sinew::parallel
