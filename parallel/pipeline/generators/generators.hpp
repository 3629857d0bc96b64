#pragma once

// Schedules by name. The room may include the room `schedule`. Each function here returns a schedule of compute alone
// that prove() passes, and returns the same one wherever it is called. with_messages() of the room `passes` adds the
// messages. Stage s is on rank s mod ranks.
// Costs are for p ranks, m microbatches and v stages on each rank. Idle times are given in units of a forward pass: F =
// I = W = 1 and B = 2.
// Errors: InvalidArgument naming an argument below 1, or if there would be more than 2^24 actions of a kind.

#include <cstdint>
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

/// A generator by its name. `virtual_stages` must be 1 if the generator has no virtual stages.
struct NamedGenerator {
  std::string_view name;  ///< "1f1b"
  std::string_view what;  ///< one line for users
  bool has_virtual_stages = false;
  PipelineSchedule (*make)(std::int32_t ranks, std::int32_t micro_batches, std::int32_t virtual_stages) = nullptr;
};
SINEW_API std::span<const NamedGenerator> generators() noexcept;

/// The schedule of the generator with that name.
/// Errors: InvalidArgument that lists all names if no generator has that name.
SINEW_API PipelineSchedule make_schedule(std::string_view name, std::int32_t ranks, std::int32_t micro_batches,
                                         std::int32_t virtual_stages = 1);

}  // namespace sinew::parallel
