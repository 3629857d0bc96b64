#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/checkpoint/index/item.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/optim/update_rule/loss_scaling.hpp>
#include <sinew/parallel/sampler/sampler_state.hpp>

namespace sinew::parallel {

/// The state of a training job that a rank has in its memory, as parts_to_carry returns it.
/// Shape: parts of one rank have no element in common. Parts of several ranks may.
struct HeldState {
  std::int64_t step = -1;  ///< steps done; below 0: the rank holds nothing
  std::int64_t optimizer_steps = 0;
  std::span<const CheckpointPart> parts{};
  std::optional<LossScaleState> loss_scale{};  ///< {}: the training has no LossScaler
  std::optional<SamplerState> sampler{};       ///< {}: the training has no DistributedSampler
};

/// The step from which ranks go on.
struct CarriedState {
  std::int64_t step = 0, optimizer_steps = 0;
  std::optional<LossScaleState> loss_scale{};
  std::optional<SamplerState> sampler{};
};

/// Fills the wanted parts of all ranks from the parts that ranks hold, for any two layouts: a checkpoint without files.
/// The state is that of the newest step of which the ranks together hold everything. If there is no such step, the
/// result is empty and the wanted buffers are unchanged. It is for ranks that survived others: some of them may have
/// ended a step that others have not, so their states may be of two steps.
/// A rank may hold several states, of one step or of several steps: its own, and copies as of BuddyCopies. States of
/// one step have the same facts, and their parts may have elements in common.
/// Collective. No wanted buffer may be one that is held. Parts that one rank wants have no element in common.
/// Errors: InvalidArgument on all ranks alike, with the first rank that has a fault: a part that require_valid()
///         refuses, or an item whose held and wanted shapes or element types differ.
/// Cost:   that of reshard() without `keep_old`: elements that a rank itself holds are copied, and each other element
///         comes from one rank that has it. Each rank gets the descriptions of all ranks' parts. 64 MiB of memory.
SINEW_API std::optional<CarriedState> carry_over(CallGroup all, std::span<const HeldState> held,
                                                 std::span<const CheckpointPart> wanted);
inline std::optional<CarriedState> carry_over(CallGroup all, const HeldState& held,
                                              std::span<const CheckpointPart> wanted) {
  return carry_over(all, std::span(&held, 1), wanted);
}

/// Chooses `leaving` ranks to go, so that the other ranks together hold a whole step, the newest one possible. The last
/// ones of the ranks that are not needed go. If there is no such step, the last of all ranks go. Collective.
/// Cost: each rank gets the descriptions of all ranks' parts; a sweep of these parts for each rank.
SINEW_API std::vector<int> ranks_to_leave(CallGroup all, std::span<const HeldState> held, int leaving);
inline std::vector<int> ranks_to_leave(CallGroup all, const HeldState& held, int leaving) {
  return ranks_to_leave(all, std::span(&held, 1), leaving);
}

}  // namespace sinew::parallel
