#include <cstddef>

#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/generators/pass_order.hpp>

namespace sinew::parallel {

PipelineSchedule zero_bubble_h1(std::int32_t ranks, std::int32_t micro_batches) {
  PipelineSchedule schedule = one_forward_one_backward(ranks, micro_batches);
  schedule.name = "zb-h1";
  for (std::int32_t r = 0; r < ranks; ++r) {
    std::vector<Action> actions;
    std::int32_t behind = 0;  // the next micro-batch whose gradient of the parameters is to be taken
    for (const Action& a : schedule.actions[static_cast<std::size_t>(r)]) {
      if (a.kind != ActionKind::Backward) {
        actions.push_back(a);
        continue;
      }
      actions.push_back({ActionKind::InputGradient, a.stage, a.micro_batch});
      if (a.micro_batch >= r) actions.push_back({ActionKind::WeightGradient, a.stage, behind++});
    }
    while (behind < micro_batches) actions.push_back({ActionKind::WeightGradient, r, behind++});
    schedule.actions[static_cast<std::size_t>(r)] = std::move(actions);
  }
  return schedule;
}

}  // namespace sinew::parallel
