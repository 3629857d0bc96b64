#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>
#include <sinew/parallel/pipeline/verify/stage_memory.hpp>

namespace sinew::parallel {

/// The budget of a rank for gathered parameters and whole gradients, which exist only during a part of a step.
struct ShardingBudget {
  std::int64_t bytes = 0;  ///< 0: there is no limit
  /// true: gradients may be summed after each microbatch. Only data parallelism that shards gradients can do that.
  bool may_reduce_again = true;
  /// The bytes of each stage if its units are gathered one after the other in each pass: those of the units that are
  /// there at a time. Empty: stages are gathered as a whole.
  std::vector<StageBytes> by_unit{};
};

/// The result of choose_sharding().
struct ShardingChoice {
  PipelineSchedule schedule;                ///< with Unshard, Reshard and Reduce
  std::int32_t active = 0;                  ///< stages of a rank that are unsharded at a time; 0: units by passes
  ReduceEvery reduces = ReduceEvery::Step;  ///< how often gradients are summed
  std::int64_t most_bytes = 0;              ///< of the rank that holds most, as stage_memory() counts
  std::int64_t moved_bytes = 0;             ///< gathered and summed in a step, of the rank that moves most
  /// For a reader: "2 of 4 stages at a time, gradients summed once a step: 300 bytes; ...".
  std::string why;
};

/// Chooses how often stages are gathered and summed. The ways are with_sharding() with some number of stages at a time
/// and with_sharding_of_passes(), each with gradients that are summed once in a step or after each microbatch. It takes
/// the way that moves the fewest bytes among those that fit the budget. If two ways move equally many bytes, it takes
/// the one that needs less memory. The result is equal on all ranks if the arguments are.
/// Shape:  bytes: one for each stage.
/// Errors: InvalidArgument if no way fits; it says how many bytes the least one needs. Otherwise as with_sharding().
/// Cost:   a proof of the schedule for each way.
SINEW_API ShardingChoice choose_sharding(const PipelineSchedule& schedule, const std::vector<StageBytes>& bytes,
                                         const ShardingBudget& budget = {});

}  // namespace sinew::parallel
