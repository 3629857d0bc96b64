#pragma once

#include <vector>

#include <sinew/parallel/checkpoint/index/index.hpp>

namespace sinew::parallel {

/// Decides which rank writes what. The result is an index without checksums, the same on all ranks. A part that several
/// ranks hold is written by one of them, so that ranks write about equally many bytes.
/// Errors: InvalidArgument naming the item and two ranks, for one name with two shapes or element types. Otherwise as
///         require_covered.
CheckpointIndex plan_save(const std::vector<std::vector<PartDescription>>& of_ranks,
                          const CheckpointMetadata& metadata);

}  // namespace sinew::parallel
