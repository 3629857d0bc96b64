#include <cstddef>

#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/generators/pass_order.hpp>

namespace sinew::parallel {

PipelineSchedule looped_breadth_first(std::int32_t ranks, std::int32_t micro_batches, std::int32_t virtual_stages) {
  PipelineSchedule schedule = without_actions("looped-bfs", ranks, micro_batches, virtual_stages);
  for (std::int32_t r = 0; r < ranks; ++r) {
    std::vector<Action>& actions = schedule.actions[static_cast<std::size_t>(r)];
    for (std::int32_t v = 0; v < virtual_stages; ++v) {
      for (std::int32_t m = 0; m < micro_batches; ++m) actions.push_back({ActionKind::Forward, v * ranks + r, m});
    }
    for (std::int32_t v = virtual_stages; v-- > 0;) {
      for (std::int32_t m = 0; m < micro_batches; ++m) actions.push_back({ActionKind::Backward, v * ranks + r, m});
    }
  }
  return schedule;
}

}  // namespace sinew::parallel
