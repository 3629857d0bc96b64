#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/job/pipeline_schedule.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/pipeline_step.hpp>
#include <sinew/parallel/pipeline/schedule/csv.hpp>
#include <sinew/parallel/pipeline/schedule/stage_ends.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>

namespace sinew::parallel {
namespace {

template <class Is>
bool has_any(const PipelineSchedule& schedule, const Is& is) {
  return std::ranges::any_of(schedule.actions,
                             [&](const std::vector<Action>& of_rank) { return std::ranges::any_of(of_rank, is); });
}

PipelineSchedule from_file(const JobConfig& config) {
  std::error_code none;
  if (std::filesystem::is_directory(config.schedule, none))
    throw Error(Code::InvalidArgument,
                fmt::format("schedule '{}' cannot be read: it is a directory, expected a file", config.schedule));
  errno = 0;
  std::ifstream in(config.schedule);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad())
    throw Error(Code::InvalidArgument,
                fmt::format("schedule '{}' cannot be read: {}", config.schedule, std::strerror(errno)));
  PipelineSchedule schedule = from_csv(text, config.schedule);
  if (schedule.ranks() != config.layout.pp || schedule.stages() != stages(config) ||
      schedule.micro_batches != config.micro_batches)
    throw Error(Code::InvalidArgument,
                fmt::format("schedule '{}' is of {} ranks, {} stages and {} micro-batches, expected {}, {} and {}",
                            config.schedule, schedule.ranks(), schedule.stages(), schedule.micro_batches,
                            config.layout.pp, stages(config), config.micro_batches));
  return schedule;
}

bool is_for(const ProvedSchedule& proved, const JobConfig& config) {
  return proved.name == config.schedule && proved.pp == config.layout.pp &&
         proved.virtual_stages == config.virtual_stages && proved.micro_batches == config.micro_batches;
}

}  // namespace

std::shared_ptr<const ProvedSchedule> proved_schedule(const JobConfig& config) {
  constexpr std::int64_t kMostPasses = 1 << 20;
  if (stages(config) <= 1 || config.micro_batches > kMostPasses / stages(config)) return nullptr;
  try {
    return std::make_shared<const ProvedSchedule>(ProvedSchedule{
        config.schedule, config.layout.pp, config.virtual_stages, config.micro_batches, schedule_of(config)});
  } catch (const Error&) {  // a rule says so
    return nullptr;
  }
}

PipelineSchedule schedule_of(const JobConfig& config) {
  if (config.proved && is_for(*config.proved, config)) return config.proved->schedule;
  if (config.micro_batches > std::numeric_limits<std::int32_t>::max())
    throw Error(Code::InvalidArgument,
                fmt::format("schedule '{}' of {} micro-batches: expected {} at most", config.schedule,
                            config.micro_batches, std::numeric_limits<std::int32_t>::max()));
  PipelineSchedule schedule =
      config.schedule.ends_with(".csv")
          ? from_file(config)
          : make_schedule(config.schedule, config.layout.pp, static_cast<std::int32_t>(config.micro_batches),
                          config.virtual_stages);
  const auto require = [&](bool holds, const std::string& why) {
    if (!holds) throw Error(Code::InvalidArgument, fmt::format("schedule '{}': {}", config.schedule, why));
  };
  for (std::int32_t r = 0; r < schedule.ranks(); ++r)
    require(std::ranges::find(schedule.rank_of, r) != schedule.rank_of.end(),
            fmt::format("rank {} has no stage, expected one at least", r));
  if (!has_messages(schedule)) {
    const PipelineVerdict alone = prove(schedule, {.messages = false});
    require(alone.ok, alone.reason);
    schedule = with_messages(std::move(schedule));
  }
  const PipelineVerdict verdict = prove(schedule, {.most_under_way = kMessagePlaces});
  require(verdict.ok, verdict.reason);
  return schedule;
}

bool has_late_weights(const PipelineSchedule& schedule) noexcept {
  return has_any(schedule, [](const Action& action) { return action.kind == ActionKind::WeightGradient; });
}

}  // namespace sinew::parallel
