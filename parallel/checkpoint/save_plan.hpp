#pragma once

#include <span>
#include <string>
#include <vector>

#include <sinew/parallel/checkpoint/index/index.hpp>
#include <sinew/parallel/checkpoint/index/item.hpp>
#include <sinew/parallel/common/call_group.hpp>

namespace sinew::parallel {

/// Decides which rank writes what. The result is an index without checksums, the same on all ranks. A part that several
/// ranks hold is written by one of them, so that ranks write about equally many bytes.
/// Errors: InvalidArgument naming the item and two ranks, for one name with two shapes or element types. Otherwise as
///         require_covered.
CheckpointIndex plan_save(const std::vector<std::vector<PartDescription>>& of_ranks,
                          const CheckpointMetadata& metadata);

/// Plans a save of the parts that all ranks hold. Collective. The plan is equal on all ranks.
/// what: the save, as errors name it.
/// Errors: InvalidArgument on all ranks alike: as require_sound and plan_save, for a part that require_valid() refuses,
///         and for metadata that differ between ranks.
CheckpointIndex plan_with_all(CallGroup all, const std::string& what, std::span<const CheckpointPart> parts,
                              const CheckpointMetadata& metadata);

/// Errors: InvalidArgument for metadata that no checkpoint can have, such as a step below 0. It does not communicate.
void require_sound(const CheckpointMetadata& metadata);
/// Checks that all ranks save the same metadata. Collective.
/// Errors: InvalidArgument on all ranks alike, with the first rank that differs.
void require_equal_metadata(CallGroup all, const std::string& what, const CheckpointMetadata& metadata);

std::vector<PartDescription> descriptions_of(std::span<const CheckpointPart> parts);

}  // namespace sinew::parallel
