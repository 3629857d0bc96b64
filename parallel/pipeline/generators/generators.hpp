#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>

namespace sinew::parallel {

// Each returns a schedule of compute alone that prove() passes, equal wherever it is called; with_messages() of
// passes.hpp adds the rest. Stage s is on rank s mod ranks. Idle times are with F = I = W = 1, B = 2.
// Errors: InvalidArgument naming the argument where one is below 1 or there would be more than 2^24 actions of a kind.

/// All forward passes, then all backward passes.
/// Cost:   every rank idles 3(p-1) of 3(m + p-1); m live activations.
/// Source: Huang et al., arXiv 1811.06965.
SINEW_API PipelineSchedule gpipe(std::int32_t ranks, std::int32_t micro_batches);

/// Rank r has p-1-r forward passes ahead, then takes backward and forward passes in turn.
/// Cost:   idles as gpipe; min(m, p-r) live activations on rank r.
/// Source: Narayanan et al., arXiv 2104.04473.
SINEW_API PipelineSchedule one_forward_one_backward(std::int32_t ranks, std::int32_t micro_batches);

/// one_forward_one_backward with several stages on each rank: micro-batches pass the stages of all ranks once in groups
/// of `group`, then the next stages. What is left over after full groups is a group of its own; where it would be
/// smaller than the ranks, in which case groups could wait for each other in a circle, all groups take more instead, as
/// evenly as can be.
/// Shape:  group >= ranks, or 0: as many as ranks. Any number of micro-batches.
/// Cost:   idles 3(p-1) of 3(v m + p-1) where m >= p; at most 2(p-1-r) + (v-1) group + 1 live activations on
///         rank r, with the largest group.
/// Source: Narayanan et al., arXiv 2104.04473; groups as in Megatron-LM.
SINEW_API PipelineSchedule interleaved(std::int32_t ranks, std::int32_t micro_batches, std::int32_t virtual_stages,
                                       std::int32_t group = 0);

/// All micro-batches through a rank's first stage, then through its next one; backward from the last.
/// Cost:   idles 3(p-1) of 3(v m + p-1) where m >= p; v m live activations. Each stage is unsharded twice.
/// Source: Lamy-Poirier, arXiv 2211.05953.
SINEW_API PipelineSchedule looped_breadth_first(std::int32_t ranks, std::int32_t micro_batches,
                                                std::int32_t virtual_stages);

/// one_forward_one_backward whose backward passes are two: rank r takes the gradient of the parameters r micro-batches
/// after that of the input, and so fills what it would idle.
/// Cost:   idles p-1 where m >= p; min(m, p) live activations.
/// Source: ZB-H1 of Qi et al., arXiv 2401.10241.
SINEW_API PipelineSchedule zero_bubble_h1(std::int32_t ranks, std::int32_t micro_batches);

/// A schedule by its name. Where virtual stages do not apply they must be 1.
struct NamedGenerator {
  std::string_view name;  ///< "1f1b"
  std::string_view what;  ///< one line for users
  bool has_virtual_stages = false;
  PipelineSchedule (*make)(std::int32_t ranks, std::int32_t micro_batches, std::int32_t virtual_stages) = nullptr;
};
SINEW_API std::span<const NamedGenerator> generators() noexcept;

/// Errors: InvalidArgument with all names where there is none of that name.
SINEW_API PipelineSchedule make_schedule(std::string_view name, std::int32_t ranks, std::int32_t micro_batches,
                                         std::int32_t virtual_stages = 1);

}  // namespace sinew::parallel
