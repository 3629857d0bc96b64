#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/generators/pass_order.hpp>

namespace sinew::parallel {
namespace {

/// How many micro-batches go together, in order. A group smaller than the ranks, but for a single one, would have to
/// wait for its own outputs to come round while the backward passes of the group before it wait for the forward passes
/// that follow.
std::vector<std::int32_t> groups_of(std::int32_t ranks, std::int32_t micro_batches, std::int32_t group) {
  const std::int32_t full = micro_batches / group, rest = micro_batches % group;
  std::vector<std::int32_t> groups(static_cast<std::size_t>(full), group);
  if (full == 0 || rest >= ranks) {
    if (rest > 0) groups.push_back(rest);
    return groups;
  }
  for (std::int32_t i = 0; i < full; ++i)
    groups[static_cast<std::size_t>(i)] += rest / full + (i < rest % full ? 1 : 0);
  return groups;
}

/// The passes of one rank, group by group, within a group stage by stage.
std::vector<StagePass> passes_of(std::int32_t rank, std::int32_t ranks, std::int32_t virtual_stages,
                                 const std::vector<std::int32_t>& groups, bool backward) {
  std::vector<StagePass> passes;
  std::int32_t first = 0;
  for (const std::int32_t members : groups) {
    for (std::int32_t v = 0; v < virtual_stages; ++v) {
      const std::int32_t stage = (backward ? virtual_stages - 1 - v : v) * ranks + rank;
      for (std::int32_t m = first; m < first + members; ++m) passes.push_back({stage, m});
    }
    first += members;
  }
  return passes;
}

}  // namespace

PipelineSchedule interleaved(std::int32_t ranks, std::int32_t micro_batches, std::int32_t virtual_stages,
                             std::int32_t group) {
  PipelineSchedule schedule = without_actions("interleaved", ranks, micro_batches, virtual_stages);
  if (group != 0 && group < ranks)
    throw Error(Code::InvalidArgument, fmt::format("interleaved: groups of {} micro-batches: expected at least as many "
                                                   "as ranks, {}, or 0",
                                                   group, ranks));
  const std::vector<std::int32_t> groups = groups_of(ranks, micro_batches, group == 0 ? ranks : group);
  const std::int32_t largest = std::ranges::max(groups);
  for (std::int32_t r = 0; r < ranks; ++r) {
    // With one stage per rank nothing comes round, and half the lead does.
    const std::int32_t lead =
        virtual_stages == 1 ? ranks - 1 - r : 2 * (ranks - 1 - r) + (virtual_stages - 1) * largest;
    schedule.actions[static_cast<std::size_t>(r)] = in_turn(passes_of(r, ranks, virtual_stages, groups, false),
                                                            passes_of(r, ranks, virtual_stages, groups, true), lead);
  }
  return schedule;
}

}  // namespace sinew::parallel
