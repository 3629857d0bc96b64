#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/job/data_strategy.hpp>
#include <sinew/parallel/job/pipeline_schedule.hpp>
#include <sinew/parallel/job/stage_sharding.hpp>
#include <sinew/parallel/planner/costs/pipeline_costs.hpp>
#include <sinew/parallel/planner/costs/planned_engine.hpp>

namespace sinew::parallel {

/// The memory of a rank.
/// Units: bytes
struct PlannedMemory {
  std::int64_t parameters = 0, gradients = 0, optimizer = 0;
  std::int64_t underway = 0;  ///< gathered parameters, and gradients that wait for their reduce_scatter
  std::int64_t activations = 0;
  std::int64_t stored = 0;  ///< in PlanQuestion::store, beside the memory of the rank: not a part of the total

  std::int64_t total() const noexcept { return parameters + gradients + optimizer + underway + activations; }
};

/// The memory of ranks for parameters, gradients and Adam's state: plan_memory() of planned_engine(), computed once for
/// each configuration. Parameters of experts are sharded over the ranks that have the same experts (edp), all others
/// over cp and dp.
class SINEW_API HeldPlans {
 public:
  explicit HeldPlans(PlanQuestion question);

  /// The memory of each pipeline rank without activations, for the tensor-parallel rank that holds most.
  /// Shape:  a configuration whose layout breaks no rule.
  /// Errors: as sharding().
  const std::vector<PlannedMemory>& by_rank(const JobConfig& config);
  /// At most by_rank(). If the job follows the schedule of its pipeline, this does not need the schedule. It counts the
  /// gathered parameters and whole gradients of the largest stage alone.
  const std::vector<PlannedMemory>& least_by_rank(const JobConfig& config);
  /// The schedule with actions on parameters that the job follows: sharded_schedule(), computed once.
  /// Shape:  follows_schedule() is true.
  /// Errors: InvalidArgument for a budget that no way of sharding fits.
  const ShardingChoice& sharding(const JobConfig& config);

 private:
  using Key = std::array<int, 10>;
  using FollowedKey = std::tuple<ScheduleShape, Key, std::int64_t>;

  static Key key_of(const JobConfig& config);
  PlannedMemory of_place(const JobConfig& config, const RankPlace& place, bool of_experts, bool follows);
  std::vector<PlannedMemory> most_by_rank(const JobConfig& config, bool follows);
  PlannedMemory planned(const JobConfig& config, DataStrategy strategy, const RankPlace& place,
                        const std::vector<DataParameter>& parameters, bool follows);

  PlanQuestion question_;
  EngineFacts engine_;
  PlanQuestion whole_;  // the same question without actions on stages
  std::map<Key, std::vector<PlannedMemory>> known_, least_;
  std::map<FollowedKey, std::vector<PlannedMemory>> followed_;
  std::map<FollowedKey, ShardingChoice> choices_;
  std::map<ScheduleShape, std::shared_ptr<const ProvedSchedule>> proved_;
  std::map<std::vector<std::int64_t>, PlannedMemory> by_list_;
};

}  // namespace sinew::parallel
