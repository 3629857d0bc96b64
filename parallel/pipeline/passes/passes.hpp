#pragma once

// Functions from schedule to schedule. The room may include the rooms `schedule`, `verify` and `timeline`. Each
// function takes a schedule that prove() passes, and returns one that prove() passes.
// Errors: InvalidArgument, with the reason, for any other schedule, and for one that already has what the function
//         adds.

#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>

namespace sinew::parallel {

/// Adds sends and receives to a schedule of compute alone. A send follows the compute that makes its data. Arrival
/// times are those of simulate() with its default costs and no latency. A receive is posted `ahead` computes before the
/// compute that begins at or after its arrival, so that the message travels while its rank computes. Both ends have the
/// same order, and every receive is posted when its send begins. The result therefore runs even if each send waits for
/// its receive.
/// Shape: ahead >= 1. 1 is enough while a message takes no longer than the shortest compute.
/// Cost:  memory for `ahead` more inputs and gradients.
SINEW_API PipelineSchedule with_messages(PipelineSchedule schedule, std::int32_t ahead = 1);

/// Adds a Recompute right before each backward pass, except for one that directly follows its forward pass, where
/// nothing would be saved. It may be applied before or after with_messages().
SINEW_API PipelineSchedule with_recompute(PipelineSchedule schedule);

/// When the gradients of a stage are summed over the ranks that share it.
enum class ReduceEvery : std::uint8_t {
  Step,       ///< once, after the last gradient of the stage
  MicroBatch  ///< after each microbatch; so whole gradients of a stage exist only while it is in a backward pass
};

/// Adds a Reduce after the last gradient of each stage, or after each of its gradients.
SINEW_API PipelineSchedule with_reduce(PipelineSchedule schedule, ReduceEvery every = ReduceEvery::Step);

/// Applies with_reduce(). Then lets each rank have at most `active` of its stages unsharded at a time. These are the
/// stages with which the rank computes next. A stage is unsharded as soon as there is room for it. It is resharded when
/// other stages are needed sooner.
/// Shape: active >= 1. With 2 or more, compute of one stage hides the gather of another.
/// With all stages of a rank, each stage is unsharded once.
SINEW_API PipelineSchedule with_sharding(PipelineSchedule schedule, std::int32_t active = 2,
                                         ReduceEvery every = ReduceEvery::Step);

/// Applies with_reduce(). Then unshards each stage right before each of its computes, and reshards it right after it.
/// It is for data parallelism that gathers the units of a stage one after the other (UnitGathers::ByUnit).
SINEW_API PipelineSchedule with_sharding_of_passes(PipelineSchedule schedule, ReduceEvery every = ReduceEvery::Step);

/// The forward half of a schedule, for evaluation: forward passes in their order, with their messages if the schedule
/// has messages. A stage is unsharded as before, except where only its backward passes needed it.
SINEW_API PipelineSchedule forward_only(PipelineSchedule schedule);

}  // namespace sinew::parallel
