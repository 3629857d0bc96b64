#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/checkpoint/index/item.hpp>
#include <sinew/parallel/common/call_group.hpp>

namespace sinew::parallel {

/// What a rank has of a training job's state in its memory: as parts_to_carry says.
/// Shape: parts of one rank have no element in common; those of several ranks may.
struct HeldState {
  std::int64_t step = -1;  ///< steps done; below 0: it holds nothing
  std::int64_t optimizer_steps = 0;
  std::span<const CheckpointPart> parts{};
};

struct CarriedState {
  std::int64_t step = 0, optimizer_steps = 0;
};

/// Fills what all ranks want from what they hold, whatever layouts both are of: a checkpoint without files. Of the
/// newest step of which they have all of it together; nothing, and wanted buffers are as they were, where there is no
/// such step. For ranks that survived others: a step that only some of them have ended is one of two.
/// Collective. No wanted buffer is one that is held.
/// Errors: InvalidArgument, on all ranks alike, with the first rank that has a fault: parts as require_valid, an item
///         that is held in another shape or element type than it is wanted.
/// Cost:   elements that a rank holds itself are copied; each other one comes from one rank that has it. A text of all
///         parts on all ranks; 64 MiB of memory.
SINEW_API std::optional<CarriedState> carry_over(CallGroup all, const HeldState& held,
                                                 std::span<const CheckpointPart> wanted);

/// Which `leaving` of the ranks are to go, so that those that stay hold a whole step together, the newest that can be:
/// the last ones that it does not need. The last ones of all where there is no such step. Collective.
/// Cost: a text of all parts on all ranks; a sweep of them for each rank.
SINEW_API std::vector<int> ranks_to_leave(CallGroup all, const HeldState& held, int leaving);

}  // namespace sinew::parallel
