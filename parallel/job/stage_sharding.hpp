#pragma once

#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/job/data_strategy.hpp>
#include <sinew/parallel/job/engine_facts.hpp>
#include <sinew/parallel/job/job_config.hpp>
#include <sinew/parallel/pipeline/passes/choose_sharding.hpp>
#include <sinew/parallel/sharded_stages/unit_order_of.hpp>

namespace sinew::parallel {

/// Returns whether data parallelism of the job follows the schedule of its pipeline: there are several stages, and the
/// engine takes actions on stages and says to which stage each unit belongs.
SINEW_API bool follows_schedule(const JobConfig& config, const EngineFacts& engine) noexcept;

/// One of all ranks that hold the same numbers of elements, along each axis but cp: experts may be spread unevenly, and
/// inside them the rows.
std::vector<RankPlace> unlike_places(int ranks, const JobConfig& config, const EngineFacts& engine);

/// The schedule of the job's pipeline with its actions on parameters. They are the schedule's own, or those that
/// choose_sharding() chooses for a budget of JobConfig::prefetch_bytes. The bytes of a stage are those of the rank that
/// has most of it, experts included.
/// Shape:  follows_schedule() is true, and the configuration breaks none of the rules about layouts and schedules.
/// Errors: as schedule_of() and choose_sharding(). InvalidArgument for a budget beside actions of the schedule's own.
SINEW_API ShardingChoice sharded_schedule(int ranks, const JobConfig& config, const EngineFacts& engine);

/// Lets data parallelism of a rank follow the schedule of sharded_schedule().
/// parameters: those of the rank, dense ones or those of experts.
/// Errors: as unit_order_of().
SINEW_API void follow(DataStrategy& strategy, const PipelineSchedule& schedule, const JobConfig& config,
                      const EngineFacts& engine, const RankPlace& place, const std::vector<DataParameter>& parameters);

}  // namespace sinew::parallel
