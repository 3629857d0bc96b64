#pragma once

// Judges and predicts one layout. The room may include its sub-rooms `model` and `costs`, the room `job` for rules, and
// the room `common`. The room `search` looks for the best layouts, and includes this one.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/violation.hpp>
#include <sinew/parallel/data_parallel/memory/far_traffic.hpp>
#include <sinew/parallel/planner/costs/data_times.hpp>
#include <sinew/parallel/planner/costs/held_bytes.hpp>
#include <sinew/parallel/planner/costs/pipeline_costs.hpp>
#include <sinew/parallel/planner/costs/planned_engine.hpp>
#include <sinew/parallel/planner/costs/stage_times.hpp>

namespace sinew::parallel {

/// The time of a step, by what it is spent on. All parts except compute, again and optimizer are exposed: the rank does
/// not compute meanwhile.
struct PlannedTime {
  PassTime passes{};   ///< all microbatches of the rank of a pipeline that is busy longest
  Seconds bubble = 0;  ///< the time in which that rank waits for other stages, and for messages
  DataTimes data{};

  Seconds total() const noexcept { return passes.total() + bubble + data.total(); }
  /// The exposed time of all exchanges.
  Seconds communication() const noexcept {
    return passes.tensor + passes.context + passes.experts + passes.offload + data.gradients + data.parameters +
           data.embeddings;
  }
  Seconds exposed() const noexcept { return bubble + communication(); }
};

/// A layout with its memory and its time.
struct PlannedLayout {
  JobConfig config{};
  PlannedMemory memory{};  ///< of the rank that takes most
  PlannedTime time{};
};

/// Judges and predicts layouts for one question. Results that several layouts share are computed once.
/// Thread: one at a time.
class SINEW_API Planner {
 public:
  /// Errors: as PlanQuestion::complete.
  explicit Planner(const PlanQuestion& question);

  const PlanQuestion& question() const noexcept { return question_; }
  const EngineFacts& engine() const noexcept { return engine_; }

  /// All rules that a configuration breaks: those of a Job (job_rules.hpp) for planned_engine(), then
  ///   experts_even  ep divides the model's experts
  ///   tokens        sequence-parallel and context-parallel ranks have at least one token each
  ///   offload       shards in a store need ZeRO 3, and one sum of each gradient in a step
  std::vector<Violation> violations(const JobConfig& config);

  // The functions below take configurations that break no rule.
  PlannedMemory memory(const JobConfig& config);
  /// At most memory() in total. It does not need the schedule that a job follows (HeldPlans::least_by_rank).
  PlannedMemory least_memory(const JobConfig& config);
  /// Simulates the pipeline, action by action. If the job follows its schedule, gathers and sums of stages run beside
  /// the compute, and the rest of their time is exposed.
  PlannedTime time(const JobConfig& config);
  /// At most time() in total. It uses least_makespan() instead of a simulation, and no time for exchanges of stages.
  PlannedTime least_time(const JobConfig& config);
  PlannedLayout plan(const JobConfig& config) { return {config, memory(config), time(config)}; }
  /// Returns whether gathers and sums of parameters follow the schedule of the pipeline.
  bool follows(const JobConfig& config) const noexcept { return follows_schedule(config, engine_); }
  /// Says when the stages of a pipeline are gathered and summed, and why (ShardingChoice::why).
  /// Shape: follows() is true.
  const ShardingChoice& sharding(const JobConfig& config) { return held_.sharding(config); }
  /// The bytes that data parallelism of a rank sends to other hosts in a step: far_traffic() of the step's graph. For
  /// experts, each rank counts as a host of its own.
  FarTraffic traffic(const JobConfig& config);

  /// As planned_exchanges().
  std::string exchanges(const JobConfig& config);

  int simulated_pipelines() const noexcept { return makespans_.simulated(); }
  /// The operations that the model needs, divided by those that the ranks could do in that time.
  double model_flops_share(Seconds step) const noexcept;

 private:
  const std::vector<StagePasses>& passes(const JobConfig& config);
  const std::vector<StageActivations>& activations(const JobConfig& config);
  const LiveStages& live(const JobConfig& config);
  const DataTimes& data(const JobConfig& config);
  PipelineCosts costs_of(const JobConfig& config);
  void add_exchanges_of_stages(const JobConfig& config, PlannedTime& time);
  PlannedMemory most_of(const JobConfig& config, const std::vector<PlannedMemory>& held);
  PlannedTime busy_time(const JobConfig& config);

  PlanQuestion question_;
  EngineFacts engine_;
  CollectiveCosts collectives_;
  HeldPlans held_;
  PipelineMakespans makespans_;
  double flops_of_step_ = 0;
  using Key = std::array<std::int64_t, 14>;
  std::map<Key, std::vector<StagePasses>> passes_;
  std::map<Key, std::vector<StageActivations>> activations_;
  std::map<Key, DataTimes> data_;
  std::map<ScheduleShape, LiveStages> live_;
};

}  // namespace sinew::parallel
