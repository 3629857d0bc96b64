#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/passes/require_sound.hpp>

namespace sinew::parallel {

PipelineSchedule with_reduce(PipelineSchedule schedule, ReduceEvery every) {
  require_sound(schedule, "with_reduce", {ActionKind::Reduce});
  std::vector<std::int32_t> gradients(schedule.rank_of.size(), 0);  // taken so far, by stage
  for (std::vector<Action>& actions : schedule.actions) {
    std::vector<Action> result;
    for (const Action& a : actions) {
      result.push_back(a);
      const bool is_gradient = a.kind == ActionKind::Backward || a.kind == ActionKind::WeightGradient;
      if (!is_gradient) continue;
      const bool is_last = ++gradients[static_cast<std::size_t>(a.stage)] == schedule.micro_batches;
      if (is_last || every == ReduceEvery::MicroBatch) result.push_back({ActionKind::Reduce, a.stage});
    }
    actions = std::move(result);
  }
  return schedule;
}

}  // namespace sinew::parallel
