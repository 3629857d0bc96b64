#pragma once

// Schedules by name. The room may include the room `schedule`. Each function here returns a schedule of compute alone
// that prove() passes, and returns the same one wherever it is called. with_messages() of the room `passes` adds the
// messages. Stage s is on rank s mod ranks. In a V-shaped schedule rank r has stages r and 2p-1-r instead.
// Costs are for p ranks, m microbatches and v stages on each rank. Idle times are given in units of a forward pass: F =
// I = W = 1 and B = 2.
// Errors: InvalidArgument naming an argument below 1, or if there would be more than 2^24 actions of a kind. V-shaped
//         schedules have at most 2048 ranks.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>

namespace sinew::parallel {

/// All forward passes, then all backward passes.
/// Cost:   every rank idles for 3(p-1) of 3(m + p-1), and keeps m live activations.
/// Source: Huang et al., arXiv 1811.06965.
SINEW_API PipelineSchedule gpipe(std::int32_t ranks, std::int32_t micro_batches);

/// Rank r begins with p-1-r forward passes. It then alternates between forward and backward passes.
/// Cost:   ranks idle as in gpipe. Rank r keeps min(m, p-r) live activations.
/// Source: Narayanan et al., arXiv 2104.04473.
SINEW_API PipelineSchedule one_forward_one_backward(std::int32_t ranks, std::int32_t micro_batches);

/// one_forward_one_backward with several stages on each rank. A group of `group` microbatches passes the first stage of
/// all ranks, then the next stage of all ranks. The microbatches that are left after full groups form a group of their
/// own. If this group were smaller than the number of ranks, groups could wait for each other in a cycle. In that case
/// all groups are larger instead, as evenly as possible.
/// Shape:  group >= ranks, or 0 for as many as ranks. Any number of microbatches.
/// Cost:   if m >= p, every rank idles for 3(p-1) of 3(v m + p-1). Rank r keeps at most 2(p-1-r) + (v-1) g + 1 live
///         activations, where g is the size of the largest group.
/// Source: Narayanan et al., arXiv 2104.04473; groups as in Megatron-LM.
SINEW_API PipelineSchedule interleaved(std::int32_t ranks, std::int32_t micro_batches, std::int32_t virtual_stages,
                                       std::int32_t group = 0);

/// All microbatches pass a rank's first stage, then its next stage. The backward pass begins with the last stage.
/// Cost:   if m >= p, every rank idles for 3(p-1) of 3(v m + p-1). It keeps v m live activations. Each stage is
///         unsharded twice.
/// Source: Lamy-Poirier, arXiv 2211.05953.
SINEW_API PipelineSchedule looped_breadth_first(std::int32_t ranks, std::int32_t micro_batches,
                                                std::int32_t virtual_stages);

/// one_forward_one_backward with backward passes in two parts. Rank r computes the gradient of the parameters r
/// microbatches after the gradient of the input. This fills time in which the rank would idle.
/// Cost:   if m >= p, every rank idles for p-1. It keeps min(m, p) live activations.
/// Source: ZB-H1 of Qi et al., arXiv 2401.10241.
SINEW_API PipelineSchedule zero_bubble_h1(std::int32_t ranks, std::int32_t micro_batches);

/// Two stages on each rank, placed in a V: the last stage is on the rank of the first. Backward passes are in two
/// parts. The rank whose two stages follow each other sends nothing between them.
/// Shape:  V-shaped. Any number of microbatches. For m < 2p-1 the order is that of 2p-1 microbatches, without the
///         passes of those that do not exist.
/// Cost:   times are of one stage, which is half of a rank's layers. If m >= 2p-1 and F = I = W, a rank idles nowhere
///         between its first and its last action. Rank r begins after r forward passes, so that every rank idles for
///         (p-1) F of the whole step. For other times with 2W >= M, where M = max(F, I), every rank idles for
///         (p-1) M + (p-2) max(0, F-I, W-M). The paper gives no formula for them; this one was found by simulation. A
///         rank keeps 2p live activations of a stage, as many bytes as the first rank of one_forward_one_backward.
/// Source: ZB-V of Qi et al., arXiv 2401.10241, section 6.
SINEW_API PipelineSchedule zero_bubble_v(std::int32_t ranks, std::int32_t micro_batches);

/// Two stages on each rank as in zero_bubble_v. Most forward passes are followed by a backward pass of the rank's other
/// stage. overlap_pairs() of the room `verify` lists these pairs. In a pair, the all-to-all of experts of one pass can
/// travel while the other pass computes.
/// Shape:  V-shaped. Any number of microbatches. The published order needs 2p or more. For fewer, the order is that of
///         2p microbatches, without the passes of those that do not exist.
/// Cost:   times are of one stage; B = I + W, and a pair takes F&B. If m >= 2p, F <= I and W <= I, some rank idles for
///         (p-1) (F&B + B - 3W) and no rank idles longer. If passes of a pair run one after the other, each when its
///         input is there, ranks idle no longer than with F&B = F + B: for (p-1) F if F = I = W. A rank keeps 2p+1 live
///         activations.
/// Source: DualPipeV of DeepSeek's DualPipe, whose table has (PP/2-1) (F&B + B - 3W) and PP+1 activations for PP = 2p
///         stages; the V is the "cut in half" of Sea AI Lab.
SINEW_API PipelineSchedule dual_pipe_v(std::int32_t ranks, std::int32_t micro_batches);

/// A placement of stages on p ranks.
enum class StagePlacement : std::uint8_t {
  Loop,  ///< stage s on rank s mod p
  V,     ///< stages r and 2p-1-r on rank r
};
constexpr std::int32_t rank_of_stage(StagePlacement placement, std::int32_t ranks, std::int32_t stage) noexcept {
  return placement == StagePlacement::V && stage >= ranks ? 2 * ranks - 1 - stage : stage % ranks;
}

/// A generator by its name. A rank has from `least_virtual_stages` to `most_virtual_stages` stages.
struct NamedGenerator {
  static constexpr std::int32_t kAnyNumber = std::numeric_limits<std::int32_t>::max();

  std::string_view name;  ///< "1f1b"
  std::string_view what;  ///< one line for users
  std::int32_t least_virtual_stages = 1, most_virtual_stages = 1;
  StagePlacement placement = StagePlacement::Loop;
  PipelineSchedule (*make)(std::int32_t ranks, std::int32_t micro_batches, std::int32_t virtual_stages) = nullptr;

  /// The number of stages of a rank that the generator can have and that is nearest to `wanted`.
  constexpr std::int32_t virtual_stages(std::int32_t wanted) const noexcept {
    return std::clamp(wanted, least_virtual_stages, most_virtual_stages);
  }
};
SINEW_API std::span<const NamedGenerator> generators() noexcept;

/// The generator with that name. null: there is none.
SINEW_API const NamedGenerator* find_generator(std::string_view name) noexcept;

/// The schedule of the generator with that name. Without `virtual_stages`, a rank has as few stages as the generator
/// allows.
/// Errors: InvalidArgument that lists all names if no generator has that name. InvalidArgument if the generator does
///         not have that number of stages on each rank.
SINEW_API PipelineSchedule make_schedule(std::string_view name, std::int32_t ranks, std::int32_t micro_batches,
                                         std::optional<std::int32_t> virtual_stages = std::nullopt);

}  // namespace sinew::parallel
