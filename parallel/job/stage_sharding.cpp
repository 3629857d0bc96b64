#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/job/pipeline_schedule.hpp>
#include <sinew/parallel/job/stage_sharding.hpp>
#include <sinew/parallel/mesh/layout.hpp>

namespace sinew::parallel {
namespace {

/// The parameters of each stage, in the order of the engine.
std::map<std::int32_t, std::vector<DataParameter>> by_stage_of_units(const std::vector<DataParameter>& parameters,
                                                                     const JobConfig& config,
                                                                     const EngineFacts& engine) {
  std::map<std::int32_t, std::vector<DataParameter>> stages;
  for (const DataParameter& p : parameters) stages[engine.stage_of_unit(config, p.unit)].push_back(p);
  return stages;
}

/// Adds the bytes of each stage that a rank has.
void add_bytes(std::vector<StageBytes>& bytes, const std::vector<DataParameter>& parameters,
               const DataStrategy& strategy, const JobConfig& config, const EngineFacts& engine) {
  const std::string axis = sharded_axis(strategy.row).axis;
  for (const auto& [stage, of_stage] : by_stage_of_units(parameters, config, engine)) {
    if (stage == kSharedByStages) continue;  // it stays gathered for the whole step
    if (stage < 0 || stage >= std::ssize(bytes))
      throw Error(Code::InvalidArgument,
                  fmt::format("the engine has unit '{}' in stage {}, expected a stage of 0 to {}",
                              of_stage.front().unit, stage, bytes.size() - 1));
    const StageBytes more = stage_bytes(of_stage, strategy.row, axis.empty() ? 1 : strategy.shape.size(axis));
    StageBytes& all = bytes[static_cast<std::size_t>(stage)];
    all = {all.parameters + more.parameters, all.gradients + more.gradients, all.shard + more.shard};
  }
}

std::vector<StageBytes> most_stage_bytes(int ranks, const JobConfig& config, const EngineFacts& engine,
                                         std::int32_t stages) {
  const DataStrategy dense = data_strategy(ranks, config, engine);
  std::vector<StageBytes> most(static_cast<std::size_t>(stages));
  for (const RankPlace& place : unlike_places(ranks, config, engine)) {
    std::vector<StageBytes> here(most.size());
    add_bytes(here, engine.parameters(config, place), dense, config, engine);
    if (engine.experts > 0)
      add_bytes(here, engine.expert_parameters(config, place), expert_strategy(ranks, config), config, engine);
    for (std::size_t s = 0; s < most.size(); ++s)
      most[s] = {std::max(most[s].parameters, here[s].parameters), std::max(most[s].gradients, here[s].gradients),
                 std::max(most[s].shard, here[s].shard)};
  }
  return most;
}

bool acts_on_parameters(const PipelineSchedule& schedule) {
  return std::ranges::any_of(schedule.actions, [](const std::vector<Action>& of_rank) {
    return std::ranges::any_of(of_rank, [](const Action& a) { return !has_micro_batch(a.kind); });
  });
}

}  // namespace

bool follows_schedule(const JobConfig& config, const EngineFacts& engine) noexcept {
  return stages(config) > 1 && engine.takes_stage_actions && engine.stage_of_unit != nullptr;
}

std::vector<RankPlace> unlike_places(int ranks, const JobConfig& config, const EngineFacts& engine) {
  const Layout layout(ranks, config.layout);
  std::map<std::tuple<int, int, int>, std::vector<std::int64_t>> of_experts;  // by pp, ep, etp
  const auto elements = [&](const RankPlace& place) {
    std::vector<std::int64_t>& known = of_experts[{place.pp, place.ep, place.etp}];
    if (known.empty() && engine.experts > 0) {
      for (const DataParameter& p : complete_parameters(engine.expert_parameters(config, place)))
        known.push_back(p.elements);
    }
    return known;
  };
  std::map<std::tuple<int, int, std::vector<std::int64_t>>, RankPlace> places;
  for (int r = 0; r < ranks; ++r) {
    const RankPlace place{.tp = layout.dense().index(r, "tp"),
                          .pp = layout.dense().index(r, "pp"),
                          .ep = layout.expert().index(r, "ep"),
                          .etp = layout.expert().index(r, "etp")};
    places.try_emplace({place.pp, place.tp, elements(place)}, place);
  }
  std::vector<RankPlace> all;
  for (const auto& [key, place] : places) all.push_back(place);
  return all;
}

ShardingChoice sharded_schedule(int ranks, const JobConfig& config, const EngineFacts& engine) {
  PipelineSchedule schedule = schedule_of(config);
  if (acts_on_parameters(schedule)) {
    if (config.prefetch_bytes != 0)
      throw Error(Code::InvalidArgument,
                  fmt::format("a budget of {} bytes beside schedule '{}', which says itself when stages are gathered; "
                              "expected one of both",
                              config.prefetch_bytes, config.schedule));
    return {.schedule = std::move(schedule), .why = "the schedule's own actions"};
  }
  const std::vector<StageBytes> bytes = most_stage_bytes(ranks, config, engine, schedule.stages());
  return choose_sharding(schedule, bytes, {.bytes = config.prefetch_bytes, .may_reduce_again = config.zero >= 2});
}

void follow(DataStrategy& strategy, const PipelineSchedule& schedule, const JobConfig& config,
            const EngineFacts& engine, const RankPlace& place, const std::vector<DataParameter>& parameters) {
  StageUnits units;
  std::string shared;
  for (const DataParameter& p : parameters) {
    const std::int32_t stage = engine.stage_of_unit(config, p.unit);
    if (stage == kSharedByStages) {
      shared = p.unit;
      continue;
    }
    std::vector<std::string>& of_stage = units[stage];
    if (std::ranges::find(of_stage, p.unit) == of_stage.end()) of_stage.push_back(p.unit);
  }
  strategy.options.step.gathered_bytes = 0;
  strategy.options.step.order = unit_order_of(schedule, place.pp, units);
  if (!shared.empty()) strategy.options.step.order = with_outer_unit(std::move(strategy.options.step.order), shared);
}

}  // namespace sinew::parallel
