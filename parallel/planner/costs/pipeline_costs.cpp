#include <algorithm>

#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/planner/costs/pipeline_costs.hpp>

namespace sinew::parallel {
namespace {

PipelineSchedule schedule_of_shape(const ScheduleShape& s) {
  return make_schedule(s.name, s.ranks, s.micro_batches, s.virtual_stages);
}

LiveStages counted(const PipelineSchedule& schedule) {
  LiveStages most;
  for (const std::vector<Action>& of_rank : schedule.actions) {
    std::int32_t now = 0, here = 0, outputs = 0;
    for (const Action& action : of_rank) {
      const bool ends = action.kind == ActionKind::Backward || action.kind == ActionKind::WeightGradient;
      const std::int32_t change = action.kind == ActionKind::Forward ? 1 : ends ? -1 : 0;
      now += change;
      here = std::max(here, now);
      if (action.stage != schedule.stages() - 1) continue;
      outputs += change;
      most.outputs = std::max(most.outputs, outputs);
    }
    most.by_rank.push_back(here);
  }
  return most;
}

template <class Of>
std::vector<std::int32_t> by_rank(std::int32_t ranks, Of of) {
  std::vector<std::int32_t> all;
  for (std::int32_t r = 0; r < ranks; ++r) all.push_back(of(r));
  return all;
}

/// Whether the schedule computes gradients of weights separately, after those of inputs: never, for some microbatches,
/// or for all of them.
enum class LateWeights : std::uint8_t { None, Some, All };

LateWeights late_weights_of(std::string_view name) {
  if (name == "zb-h1" || name == "zb-v") return LateWeights::All;
  return name == "dualpipev" ? LateWeights::Some : LateWeights::None;
}

/// The least time that the gradients of a stage may take.
std::int64_t least_backward(const StageCosts& c, LateWeights late) {
  const std::int64_t parts = c.input_gradient + c.weight_gradient;
  if (late == LateWeights::None) return c.backward;
  return late == LateWeights::All ? parts : std::min(parts, c.backward);
}

}  // namespace

StagePlacement placement_of(std::string_view name) noexcept {
  const NamedGenerator* const found = find_generator(name);
  return found == nullptr ? StagePlacement::Loop : found->placement;
}

ScheduleShape schedule_shape(const JobConfig& config) {
  return {config.schedule, config.layout.pp, static_cast<std::int32_t>(config.micro_batches), config.virtual_stages};
}

std::int32_t rank_of_stage(const JobConfig& config, std::int32_t stage) {
  return rank_of_stage(placement_of(config.schedule), config.layout.pp, stage);
}

LiveStages live_stages(const ScheduleShape& s) {
  const std::int32_t p = s.ranks, m = s.micro_batches, v = s.virtual_stages;
  if (s.name == "gpipe") return {by_rank(p, [&](std::int32_t) { return m; }), m};
  if (s.name == "1f1b" || (s.name == "interleaved" && v == 1))
    return {by_rank(p, [&](std::int32_t r) { return std::min(m, p - r); })};
  if (s.name == "looped-bfs") return {by_rank(p, [&](std::int32_t) { return v * m; }), m};
  if (s.name == "interleaved" && m % p == 0)
    return {by_rank(p, [&](std::int32_t r) { return std::min(v * m, 2 * (p - 1 - r) + (v - 1) * p + 1); })};
  if (s.name == "zb-v" && m >= 2 * p - 1) return {by_rank(p, [&](std::int32_t) { return 2 * p; })};
  if (s.name == "dualpipev" && m >= 2 * p) return {by_rank(p, [&](std::int32_t) { return 2 * p + 1; })};
  return counted(schedule_of_shape(s));
}

std::int64_t least_makespan(const ScheduleShape& s, const PipelineCosts& costs) {
  const LateWeights weights = late_weights_of(s.name);
  const bool late = weights != LateWeights::None;
  const StagePlacement placement = placement_of(s.name);
  std::vector<std::int64_t> busy(at(s.ranks));
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const StageCosts& c = costs.stages[stage];
    busy[at(rank_of_stage(placement, s.ranks, static_cast<std::int32_t>(stage)))] +=
        s.micro_batches * (c.forward + least_backward(c, weights));
  }
  std::int64_t most = 0, before = 0;
  for (std::int32_t r = 0; r < s.ranks; ++r) {
    most = std::max(most, busy[at(r)] + before);
    before += costs.stages[at(r)].forward + (late ? 0 : costs.stages[at(r)].backward) + (late ? 1 : 2) * costs.latency;
  }
  return most;
}

std::int64_t PipelineMakespans::makespan(const ScheduleShape& s, const PipelineCosts& costs) {
  std::vector<std::int64_t> numbers{costs.latency};
  for (const StageCosts& c : costs.stages)
    numbers.insert(numbers.end(), {c.forward, c.backward, c.input_gradient, c.weight_gradient});
  Key key{s, std::move(numbers)};
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  const std::int64_t makespan = simulate(schedule_of_shape(s), costs).makespan;
  known_.emplace(std::move(key), makespan);
  return makespan;
}

}  // namespace sinew::parallel
