#include <cstddef>

#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/generators/pass_order.hpp>

namespace sinew::parallel {

PipelineSchedule gpipe(std::int32_t ranks, std::int32_t micro_batches) {
  PipelineSchedule schedule = without_actions("gpipe", ranks, micro_batches, 1);
  for (std::int32_t r = 0; r < ranks; ++r) {
    std::vector<Action>& actions = schedule.actions[static_cast<std::size_t>(r)];
    for (const ActionKind kind : {ActionKind::Forward, ActionKind::Backward}) {
      for (std::int32_t m = 0; m < micro_batches; ++m) actions.push_back({kind, r, m});
    }
  }
  return schedule;
}

}  // namespace sinew::parallel
