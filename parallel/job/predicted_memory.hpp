#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/data_parallel/memory/memory_plan.hpp>
#include <sinew/parallel/job/engine_facts.hpp>
#include <sinew/parallel/job/job_config.hpp>

namespace sinew::parallel {

/// The most memory that a rank takes from the first step on, for the rank that takes most.
/// Units: bytes
struct PredictedMemory {
  MemoryPlan held;                   ///< parameters, gradients, the state of Adam, and what is in flight
  std::size_t activation_bytes = 0;  ///< of a pass, as the engine says

  std::int64_t total() const noexcept { return static_cast<std::int64_t>(held.total() + activation_bytes); }
};

/// The facts about the steps of a job that plan_memory needs: Adam's state, and whether gradients are added up before
/// they are summed over ranks. follows_schedule: data parallelism follows the schedule of the pipeline
/// (stage_sharding.hpp).
SINEW_API MemoryUse memory_use(const JobConfig& config, bool follows_schedule = false);

/// For a configuration that breaks no rule. Nothing is allocated.
/// place: that of the ranks for which to predict. {}: the ranks that take most.
SINEW_API PredictedMemory predict_memory(int ranks, const JobConfig& config, const EngineFacts& engine,
                                         std::optional<RankPlace> place = {});

/// A table of the memory of a rank under each row of data parallelism, with the other settings of this configuration.
/// hsdp has two copies, unless `replicas` says how many.
SINEW_API std::string row_table(int ranks, const JobConfig& config, const EngineFacts& engine);

}  // namespace sinew::parallel
