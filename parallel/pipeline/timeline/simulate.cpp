#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/pipeline/schedule/stage_ends.hpp>
#include <sinew/parallel/pipeline/timeline/simulate.hpp>
#include <sinew/parallel/pipeline/verify/dependencies.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>

namespace sinew::parallel {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw Error(Code::InvalidArgument, "simulate: " + why); }

void require_sound(const PipelineSchedule& schedule, const PipelineCosts& costs) {
  const std::size_t stages = schedule.rank_of.size();
  if (costs.stages.size() != 1 && costs.stages.size() != stages)
    refuse(fmt::format("costs of {} stages: expected 1 or {}", costs.stages.size(), stages));
  std::int64_t least = costs.latency;
  for (const StageCosts& c : costs.stages)
    least = std::min({least, c.forward, c.backward, c.input_gradient, c.weight_gradient, c.recompute, c.gather, c.sum});
  if (least < 0) refuse(fmt::format("a cost of {}: expected 0 or more", least));
  const PipelineVerdict verdict = prove(schedule, {.messages = has_messages(schedule)});
  if (!verdict) refuse(verdict.reason);
}

std::int64_t cost_of(const Action& a, const PipelineCosts& costs) {
  const StageCosts& stage = costs.stages[costs.stages.size() == 1 ? 0 : static_cast<std::size_t>(a.stage)];
  switch (a.kind) {
    case ActionKind::Forward: return stage.forward;
    case ActionKind::Backward: return stage.backward;
    case ActionKind::InputGradient: return stage.input_gradient;
    case ActionKind::WeightGradient: return stage.weight_gradient;
    case ActionKind::Recompute: return stage.recompute;
    case ActionKind::Unshard: return stage.gather;
    case ActionKind::Reduce: return stage.sum;
    case ActionKind::SendActivation:
    case ActionKind::ReceiveActivation:
    case ActionKind::SendGradient:
    case ActionKind::ReceiveGradient:
    case ActionKind::Reshard: return 0;
  }
  return 0;
}

}  // namespace

PipelineTimeLine simulate(const PipelineSchedule& schedule, const PipelineCosts& costs) {
  require_sound(schedule, costs);
  const Inventory inventory(schedule);
  const Dependencies dependencies =
      has_messages(schedule) ? Dependencies(inventory, channels_of(inventory), std::nullopt) : Dependencies(inventory);
  PipelineTimeLine line;
  line.busy.assign(schedule.actions.size(), 0);
  std::vector<std::int64_t> now(schedule.actions.size(), 0), exchanged(now);
  std::vector<std::int64_t> gathered(schedule.rank_of.size(), 0);  // by stage: the end of its last gather
  std::vector<std::int64_t> ends(static_cast<std::size_t>(inventory.count()), 0);
  for (const std::vector<Action>& actions : schedule.actions) line.spans.emplace_back(actions.size());
  walk(inventory, dependencies, [&](std::int32_t n) {
    const Action& a = inventory.action(n);
    const std::int32_t rank = inventory.rank(n);
    const auto r = static_cast<std::size_t>(rank);
    std::int64_t start = now[r];
    for (const std::int32_t need : dependencies.needs(n)) {
      const bool travels =
          is_compute(a.kind) && (inventory.rank(need) != rank || is_message(inventory.action(need).kind));
      start = std::max(start, ends[static_cast<std::size_t>(need)] + (travels ? costs.latency : 0));
    }
    const std::int64_t cost = cost_of(a, costs);
    auto& span = line.spans[r][static_cast<std::size_t>(n - inventory.first(rank))];
    if (a.kind == ActionKind::Unshard || a.kind == ActionKind::Reduce) {
      ends[static_cast<std::size_t>(n)] = start;
      span.start = std::max(start, exchanged[r]);
      span.end = exchanged[r] = span.start + cost;
      if (a.kind == ActionKind::Unshard) gathered[static_cast<std::size_t>(a.stage)] = span.end;
      return;
    }
    if (is_compute(a.kind)) start = std::max(start, gathered[static_cast<std::size_t>(a.stage)]);
    now[r] = ends[static_cast<std::size_t>(n)] = start + cost;
    line.busy[r] += cost;
    span = {start, now[r]};
  });
  line.makespan = std::max(*std::ranges::max_element(now), *std::ranges::max_element(exchanged));
  return line;
}

}  // namespace sinew::parallel
