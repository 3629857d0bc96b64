#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>

namespace sinew::parallel {

// Each takes a schedule that prove() passes and returns one.
// Errors: InvalidArgument for any other, with the reason, and for one that has what a pass adds.

/// Adds sends and receives to a schedule of compute alone, wherever it comes from. A send follows what makes it; a
/// receive is posted `ahead` computes before the one that would begin when it arrives, were F = I = W = 1 and B = 2, so
/// that it travels while its rank computes. Both ends have the same order, and as every receive is posted when its send
/// begins, the result runs even where each send waits for its receive.
/// Shape: ahead >= 1; more where messages take longer than the shortest compute, up to which 1 costs no time.
/// Cost:  memory for as many more inputs and gradients.
SINEW_API PipelineSchedule with_messages(PipelineSchedule schedule, std::int32_t ahead = 1);

/// Adds a Recompute right before each backward pass, but where that follows its forward pass at once: nothing would be
/// saved. Before or after with_messages().
SINEW_API PipelineSchedule with_recompute(PipelineSchedule schedule);

/// Adds a Reduce after the last gradient of each stage.
SINEW_API PipelineSchedule with_reduce(PipelineSchedule schedule);

/// with_reduce(), and a rank has at most `active` of its stages unsharded at once: those that it computes with next.
/// Each is unsharded as soon as there is room for it, and resharded when others are needed sooner.
/// Shape: active >= 1; 2 or more hide the gathering of one stage behind compute of another.
SINEW_API PipelineSchedule with_sharding(PipelineSchedule schedule, std::int32_t active = 2);

}  // namespace sinew::parallel
