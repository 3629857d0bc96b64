#include <vector>

#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/passes/require_sound.hpp>

namespace sinew::parallel {
namespace {

std::vector<Action> with_recompute(const std::vector<Action>& actions) {
  std::vector<Action> result;
  Action last_compute{ActionKind::Recompute, -1, -1};
  for (const Action& a : actions) {
    const bool is_backward = a.kind == ActionKind::Backward || a.kind == ActionKind::InputGradient;
    if (is_backward && last_compute != Action{ActionKind::Forward, a.stage, a.micro_batch})
      result.push_back({ActionKind::Recompute, a.stage, a.micro_batch});
    result.push_back(a);
    if (is_compute(a.kind)) last_compute = a;
  }
  return result;
}

}  // namespace

PipelineSchedule with_recompute(PipelineSchedule schedule) {
  require_sound(schedule, "with_recompute", {ActionKind::Recompute});
  for (std::vector<Action>& actions : schedule.actions) actions = with_recompute(actions);
  return schedule;
}

}  // namespace sinew::parallel
