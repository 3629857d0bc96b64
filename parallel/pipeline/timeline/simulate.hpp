#pragma once

// The time that a schedule takes. The room simulates a schedule with given costs, and shows the result as a drawing or
// as a trace. It may include the rooms `schedule` and `verify`.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>

namespace sinew::parallel {

/// The times that the computations of a stage take, and the exchanges of its parameters and gradients.
/// Units: any unit that is the same for all, such as nanoseconds. They are whole numbers, so that times that are equal
///        on paper are equal here.
struct StageCosts {
  std::int64_t forward = 1;
  std::int64_t backward = 2;
  std::int64_t input_gradient = 1;
  std::int64_t weight_gradient = 1;
  std::int64_t recompute = 1;
  std::int64_t gather = 0;  ///< of an Unshard
  std::int64_t sum = 0;     ///< of a Reduce
};

/// The costs of a whole pipeline.
struct PipelineCosts {
  std::vector<StageCosts> stages = std::vector<StageCosts>(1);  ///< by stage, or one entry for all stages
  std::int64_t latency = 0;  ///< of a message to another rank, from the time at which both its ends are posted
};

/// When each rank does what.
struct PipelineTimeLine {
  struct Span {
    std::int64_t start = 0, end = 0;

    friend bool operator==(const Span&, const Span&) = default;
  };
  std::vector<std::vector<Span>> spans{};  ///< by rank, one for each action; messages take no time
  std::vector<std::int64_t> busy{};        ///< by rank
  std::int64_t makespan = 0;               ///< the end of the last action; the step begins at 0

  std::int64_t idle(std::int32_t rank) const noexcept { return makespan - busy[static_cast<std::size_t>(rank)]; }
  /// The rank's idle time as a share of the makespan.
  double idle_share(std::int32_t rank) const noexcept {
    return makespan == 0 ? 0 : static_cast<double>(idle(rank)) / static_cast<double>(makespan);
  }
};

/// Simulates a schedule. Each rank takes its actions in order, each one as soon as the actions for which it waits have
/// ended. A schedule of compute alone is simulated as if messages were posted when they are needed. The gathers and the
/// sums of a rank run one after the other beside its compute. A compute of an unsharded stage waits for its gather.
/// Errors: InvalidArgument for a schedule that prove() refuses, for costs below 0, and for costs of another number of
///         stages.
/// Cost:   about 0.1 us for each action.
SINEW_API PipelineTimeLine simulate(const PipelineSchedule& schedule, const PipelineCosts& costs = {});

}  // namespace sinew::parallel
