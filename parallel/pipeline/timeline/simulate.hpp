#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>

namespace sinew::parallel {

/// How long compute takes.
/// Units: any, the same for all, such as nanoseconds; whole numbers, so that what is equal on paper is equal here.
struct StageCosts {
  std::int64_t forward = 1;
  std::int64_t backward = 2;
  std::int64_t input_gradient = 1;
  std::int64_t weight_gradient = 1;
  std::int64_t recompute = 1;
};

struct PipelineCosts {
  std::vector<StageCosts> stages = std::vector<StageCosts>(1);  ///< by stage, or one for all
  std::int64_t latency = 0;  ///< of a message to another rank, from when both its ends are posted
};

/// When each rank does what.
struct PipelineTimeLine {
  struct Span {
    std::int64_t start = 0, end = 0;

    friend bool operator==(const Span&, const Span&) = default;
  };
  std::vector<std::vector<Span>> spans;  ///< by rank, of each of its actions; all but compute take no time
  std::vector<std::int64_t> busy;        ///< by rank
  std::int64_t makespan = 0;             ///< from 0 to the end of the last action

  std::int64_t idle(std::int32_t rank) const noexcept { return makespan - busy[static_cast<std::size_t>(rank)]; }
  /// Of the makespan.
  double idle_share(std::int32_t rank) const noexcept {
    return makespan == 0 ? 0 : static_cast<double>(idle(rank)) / static_cast<double>(makespan);
  }
};

/// Runs a schedule on paper: each rank takes its actions in order, each as soon as what it waits for is there.
/// A schedule of compute alone is as one with messages that are posted when they are needed.
/// Errors: InvalidArgument for a schedule that prove() refuses, and for costs below 0 or of another number of stages.
/// Cost:   about 0.1 us per action.
SINEW_API PipelineTimeLine simulate(const PipelineSchedule& schedule, const PipelineCosts& costs = {});

}  // namespace sinew::parallel
