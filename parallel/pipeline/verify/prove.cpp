#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include <sinew/parallel/pipeline/schedule/action_text.hpp>
#include <sinew/parallel/pipeline/schedule/gap.hpp>
#include <sinew/parallel/pipeline/schedule/inventory.hpp>
#include <sinew/parallel/pipeline/verify/channels.hpp>
#include <sinew/parallel/pipeline/verify/dependencies.hpp>
#include <sinew/parallel/pipeline/verify/live_activations.hpp>
#include <sinew/parallel/pipeline/verify/parameter_use.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>
#include <sinew/parallel/pipeline/verify/shortest_cycle.hpp>

namespace sinew::parallel {
namespace {

PipelineVerdict refusal(std::string reason) { return {.ok = false, .reason = std::move(reason)}; }

/// "deadlock: 1B0 (rank 1) waits for 1F0 (rank 1), which comes after 1B0 (rank 1)".
PipelineVerdict refusal(const Inventory& inventory, const std::vector<std::int32_t>& cycle) {
  const auto name = [&](std::int32_t n) {
    return fmt::format("{} (rank {})", to_string(inventory.action(n)), inventory.rank(n));
  };
  PipelineVerdict verdict{.ok = false, .reason = "deadlock: " + name(cycle.front())};
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const std::int32_t n = cycle[i], next = cycle[(i + 1) % cycle.size()];
    const bool is_before = inventory.rank(next) == inventory.rank(n) && next < n;
    verdict.reason +=
        fmt::format("{} {} {}", i == 0 ? "" : ", which", is_before ? "comes after" : "waits for", name(next));
    verdict.cycle.push_back({inventory.rank(n), inventory.action(n)});
  }
  return verdict;
}

/// Adds the memory of stages to the verdict of a schedule that is right otherwise.
PipelineVerdict judge_stage_memory(PipelineVerdict verdict, const PipelineSchedule& schedule,
                                   const ProofOptions& options) {
  if (!verdict || (options.stages.empty() && !options.most_bytes)) return verdict;
  if (std::ssize(options.stages) != schedule.stages())
    return refusal(fmt::format("bytes of {} stages: expected those of {}", options.stages.size(), schedule.stages()));
  verdict.memory = stage_memory(schedule, options.stages);
  const auto most = std::ranges::max_element(verdict.memory.most, {}, &StagePeak::bytes);
  if (!options.most_bytes || most == verdict.memory.most.end() || most->bytes <= *options.most_bytes) return verdict;
  const auto rank = static_cast<std::int32_t>(most - verdict.memory.most.begin());
  const Action& at = schedule.actions[static_cast<std::size_t>(rank)][static_cast<std::size_t>(most->index)];
  return refusal(fmt::format("rank {}: {}: {} bytes of gathered parameters and whole gradients, expected at most {}",
                             rank, to_string(at), most->bytes, *options.most_bytes));
}

/// Judges whether all actions can run, given the actions for which each waits.
PipelineVerdict judge_progress(const Inventory& inventory, const Dependencies& dependencies) {
  std::int32_t done = 0;
  const std::vector<std::int32_t> taken = walk(inventory, dependencies, [&](std::int32_t) { ++done; });
  if (done == inventory.count()) return {.live = live_activations(inventory)};
  return refusal(inventory, shortest_cycle(inventory, dependencies, taken));
}

}  // namespace

PipelineVerdict prove(const PipelineSchedule& schedule, const ProofOptions& options) {
  if (options.most_under_way.value_or(0) < 0)
    return refusal(fmt::format("most_under_way {}: expected 0 or more", *options.most_under_way));
  const Inventory inventory(schedule);
  if (inventory.fault()) return refusal(to_string(*inventory.fault()));
  if (const auto gap = find_gap(inventory, options.messages)) return refusal(to_string(*gap));
  if (const auto misuse = find_misuse_of_parameters(inventory)) return refusal(to_string(*misuse));
  if (!options.messages)
    return judge_stage_memory(judge_progress(inventory, Dependencies(inventory)), schedule, options);
  const std::vector<Channel> channels = channels_of(inventory);
  std::string disorder = find_disorder(inventory, channels);
  if (!disorder.empty()) return refusal(std::move(disorder));
  return judge_stage_memory(judge_progress(inventory, Dependencies(inventory, channels, options.most_under_way)),
                            schedule, options);
}

}  // namespace sinew::parallel
