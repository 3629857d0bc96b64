#include <algorithm>
#include <cstddef>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/pipeline/passes/choose_sharding.hpp>

namespace sinew::parallel {
namespace {

/// The most stages that a rank has.
std::int32_t most_stages_of_rank(const PipelineSchedule& schedule) {
  std::int64_t most = 1;
  for (std::int32_t r = 0; r < schedule.ranks(); ++r) most = std::max(most, std::ranges::count(schedule.rank_of, r));
  return static_cast<std::int32_t>(most);
}

std::int64_t moved_by(const std::vector<Action>& actions, const std::vector<StageBytes>& bytes) {
  std::int64_t moved = 0;
  for (const Action& a : actions) {
    const StageBytes& of = bytes[static_cast<std::size_t>(a.stage)];
    if (a.kind == ActionKind::Unshard) moved += of.parameters;
    if (a.kind == ActionKind::Reduce) moved += of.gradients;
  }
  return moved;
}

std::string text_of_way(const ShardingChoice& way, std::int32_t stages) {
  const std::string gathered = way.active == 0 ? "units of a stage one after the other in each pass"
                                               : fmt::format("{} of {} stages of a rank at a time", way.active, stages);
  return fmt::format("{}, gradients summed {}: {} bytes", gathered,
                     way.reduces == ReduceEvery::Step ? "once a step" : "after each microbatch", way.most_bytes);
}

/// active: as ShardingChoice has it.
ShardingChoice way_with(const PipelineSchedule& schedule, const std::vector<StageBytes>& bytes,
                        const std::vector<StageBytes>& by_unit, std::int32_t active, ReduceEvery reduces) {
  ShardingChoice way{
      .schedule = active > 0 ? with_sharding(schedule, active, reduces) : with_sharding_of_passes(schedule, reduces),
      .active = active,
      .reduces = reduces};
  std::vector<StageBytes> there = bytes;
  for (std::size_t s = 0; active == 0 && s < there.size(); ++s) {
    there[s].parameters = by_unit[s].parameters;
    if (reduces == ReduceEvery::MicroBatch) there[s] = by_unit[s];
  }
  for (const StagePeak& of_rank : stage_memory(way.schedule, there).most)
    way.most_bytes = std::max(way.most_bytes, of_rank.bytes);
  for (const std::vector<Action>& actions : way.schedule.actions)
    way.moved_bytes = std::max(way.moved_bytes, moved_by(actions, bytes));
  return way;
}

}  // namespace

ShardingChoice choose_sharding(const PipelineSchedule& schedule, const std::vector<StageBytes>& bytes,
                               const ShardingBudget& budget) {
  if (std::ssize(bytes) != schedule.stages())
    throw Error(Code::InvalidArgument, fmt::format("choose_sharding: bytes of {} stages, expected those of the {} that "
                                                   "'{}' has",
                                                   bytes.size(), schedule.stages(), schedule.name));
  if (!budget.by_unit.empty() && budget.by_unit.size() != bytes.size())
    throw Error(Code::InvalidArgument, fmt::format("choose_sharding: bytes by unit of {} stages, expected those of {}",
                                                   budget.by_unit.size(), bytes.size()));
  if (budget.bytes < 0)
    throw Error(Code::InvalidArgument,
                fmt::format("choose_sharding: a budget of {} bytes, expected 0 or more", budget.bytes));
  const std::int32_t stages = most_stages_of_rank(schedule);
  std::optional<ShardingChoice> best, least;
  std::string too_large;  // the way that moves fewest bytes, if the budget is too small for it
  for (const ReduceEvery reduces : {ReduceEvery::Step, ReduceEvery::MicroBatch}) {
    if (reduces == ReduceEvery::MicroBatch && !budget.may_reduce_again) continue;
    for (std::int32_t active = stages; active >= (budget.by_unit.empty() ? 1 : 0); --active) {
      ShardingChoice way = way_with(schedule, bytes, budget.by_unit, active, reduces);
      const bool fits = budget.bytes == 0 || way.most_bytes <= budget.bytes;
      if (too_large.empty() && !fits) too_large = text_of_way(way, stages);
      const auto is_better = [&](const ShardingChoice& than) {
        return std::tie(way.moved_bytes, way.most_bytes) < std::tie(than.moved_bytes, than.most_bytes);
      };
      if (!least || way.most_bytes < least->most_bytes) least = way;
      if (fits && (!best || is_better(*best))) best = std::move(way);
    }
  }
  if (!best)
    throw Error(Code::InvalidArgument,
                fmt::format("choose_sharding: a budget of {} bytes for '{}', expected {} or more: {}", budget.bytes,
                            schedule.name, least->most_bytes, text_of_way(*least, stages)));
  best->why = text_of_way(*best, stages);
  if (budget.bytes > 0) best->why += fmt::format(" of {}", budget.bytes);
  if (!too_large.empty()) best->why += fmt::format("; too much: {}", too_large);
  return *std::move(best);
}

}  // namespace sinew::parallel
