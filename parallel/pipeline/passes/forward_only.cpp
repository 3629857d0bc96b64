#include <algorithm>
#include <utility>
#include <vector>

#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/passes/require_sound.hpp>

namespace sinew::parallel {
namespace {

bool is_of_forward_half(const Action& a) noexcept {
  using enum ActionKind;
  return a.kind == Forward || a.kind == SendActivation || a.kind == ReceiveActivation || a.kind == Unshard ||
         a.kind == Reshard;
}

/// Takes out each Unshard, with its Reshard, between which the stage does not compute.
std::vector<Action> without_idle_unshards(const std::vector<Action>& actions) {
  std::vector<Action> kept;
  for (const Action& a : actions) {
    if (a.kind == ActionKind::Reshard) {
      const auto is_of_stage = [&](const Action& other) {
        return other.stage == a.stage && (other.kind == ActionKind::Unshard || other.kind == ActionKind::Forward);
      };
      const auto last = std::find_if(kept.rbegin(), kept.rend(), is_of_stage);
      if (last != kept.rend() && last->kind == ActionKind::Unshard) {
        kept.erase(std::next(last).base());
        continue;
      }
    }
    kept.push_back(a);
  }
  return kept;
}

}  // namespace

PipelineSchedule forward_only(PipelineSchedule schedule) {
  require_sound(schedule, "forward_only", {});
  schedule.forward_only = true;
  for (std::vector<Action>& actions : schedule.actions) {
    std::erase_if(actions, [](const Action& a) { return !is_of_forward_half(a); });
    actions = without_idle_unshards(actions);
  }
  return schedule;
}

}  // namespace sinew::parallel
