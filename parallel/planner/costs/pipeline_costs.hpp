#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/job/job_config.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/timeline/simulate.hpp>

namespace sinew::parallel {

/// The name and the arguments by which a generator makes a schedule.
struct ScheduleShape {
  std::string name = "1f1b";
  std::int32_t ranks = 1, micro_batches = 1, virtual_stages = 1;
  friend auto operator<=>(const ScheduleShape&, const ScheduleShape&) = default;
};

/// The generator's name and arguments for the schedule of a configuration.
SINEW_API ScheduleShape schedule_shape(const JobConfig& config);

/// The rank that has a stage of a configuration. If no generator has the name of the schedule, stages are placed in a
/// loop.
SINEW_API std::int32_t rank_of_stage(const JobConfig& config, std::int32_t stage);

/// The most that is kept at a time between forward and backward passes.
struct LiveStages {
  /// Stages whose activations are kept. With p ranks and m microbatches: min(m, p - r) for 1f1b, m for gpipe.
  std::vector<std::int32_t> by_rank;
  std::int32_t outputs = 1;  ///< of the last stage: microbatches whose logits are kept; 1 for 1f1b, m for gpipe
  friend bool operator==(const LiveStages&, const LiveStages&) = default;
};

/// The placement of stages of a generator. Loop if no generator has that name.
SINEW_API StagePlacement placement_of(std::string_view name) noexcept;

/// Cost: the count of the schedule's actions. For generators for which tests show that a formula has the same result,
///       the formula is used.
SINEW_API LiveStages live_stages(const ScheduleShape& shape);

/// A lower bound for the time of a step with this schedule. A rank cannot begin before its first input has passed the
/// earlier stages, and its last gradient must pass them again. If gradients of weights are computed later, their time
/// does not count on this path. If only some are computed later, the shorter way of each backward pass counts. For
/// stages of equal costs, and as many microbatches as ranks, the bound equals the
/// result of simulate(): 1f1b and gpipe idle for (p-1)/m of their compute, interleaved for (p-1)/(m v).
/// Shape: costs.stages by stage.
SINEW_API std::int64_t least_makespan(const ScheduleShape& shape, const PipelineCosts& costs);

/// Simulates schedules, each one once.
class SINEW_API PipelineMakespans {
 public:
  /// The time of the whole step. Costs of stages are in nanoseconds.
  std::int64_t makespan(const ScheduleShape& shape, const PipelineCosts& costs);
  int simulated() const noexcept { return static_cast<int>(known_.size()); }

 private:
  using Key = std::tuple<ScheduleShape, std::vector<std::int64_t>>;
  std::map<Key, std::int64_t> known_;
};

}  // namespace sinew::parallel
