#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/pipeline/generators/pass_order.hpp>

namespace sinew::parallel {
namespace {

constexpr std::int64_t kMostPasses = 1 << 24;

void require_at_least_one(std::string_view name, std::string_view what, std::int32_t found) {
  if (found < 1) throw Error(Code::InvalidArgument, fmt::format("{}: {} {}: expected 1 or more", name, found, what));
}

}  // namespace

PipelineSchedule without_actions(std::string_view name, std::int32_t ranks, std::int32_t micro_batches,
                                 std::int32_t virtual_stages) {
  require_at_least_one(name, "ranks", ranks);
  require_at_least_one(name, "micro-batches", micro_batches);
  require_at_least_one(name, "virtual stages", virtual_stages);
  const std::int64_t stages = std::int64_t{ranks} * virtual_stages;
  if (stages > kMostPasses || stages * micro_batches > kMostPasses)
    throw Error(Code::InvalidArgument,
                fmt::format("{}: {} ranks of {} stages with {} micro-batches: expected a product of at most {}", name,
                            ranks, virtual_stages, micro_batches, kMostPasses));
  PipelineSchedule schedule{.name = std::string(name), .micro_batches = micro_batches};
  for (std::int32_t s = 0; s < static_cast<std::int32_t>(stages); ++s) schedule.rank_of.push_back(s % ranks);
  schedule.actions.resize(static_cast<std::size_t>(ranks));
  return schedule;
}

std::vector<Action> in_turn(const std::vector<StagePass>& forward, const std::vector<StagePass>& backward,
                            std::int32_t ahead) {
  std::vector<Action> actions;
  actions.reserve(forward.size() + backward.size());
  const std::size_t lead = std::min(static_cast<std::size_t>(ahead), forward.size());
  std::size_t next = 0;
  const auto go_forward = [&] {
    actions.push_back({ActionKind::Forward, forward[next].stage, forward[next].micro_batch});
    ++next;
  };
  while (next < lead) go_forward();
  for (const StagePass& pass : backward) {
    if (next < forward.size()) go_forward();
    actions.push_back({ActionKind::Backward, pass.stage, pass.micro_batch});
  }
  return actions;
}

}  // namespace sinew::parallel
