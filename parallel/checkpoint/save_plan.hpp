#pragma once

#include <vector>

#include <sinew/parallel/checkpoint/index/index.hpp>

namespace sinew::parallel {

/// Who writes what: an index without checksums, the same on all ranks. Parts that several ranks hold are written by
/// one of them, so that ranks write about as many bytes each.
/// Errors: InvalidArgument naming the item and two ranks: one name for two shapes or element types; and as
///         require_covered.
CheckpointIndex plan_save(const std::vector<std::vector<PartDescription>>& of_ranks,
                          const CheckpointMetadata& metadata);

}  // namespace sinew::parallel
