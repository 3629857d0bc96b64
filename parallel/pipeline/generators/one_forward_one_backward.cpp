#include <cstddef>

#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/generators/pass_order.hpp>

namespace sinew::parallel {

PipelineSchedule one_forward_one_backward(std::int32_t ranks, std::int32_t micro_batches) {
  PipelineSchedule schedule = without_actions("1f1b", ranks, micro_batches, 1);
  for (std::int32_t r = 0; r < ranks; ++r) {
    std::vector<StagePass> passes;
    for (std::int32_t m = 0; m < micro_batches; ++m) passes.push_back({r, m});
    schedule.actions[static_cast<std::size_t>(r)] = in_turn(passes, passes, ranks - 1 - r);
  }
  return schedule;
}

}  // namespace sinew::parallel
