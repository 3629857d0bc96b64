#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/passes/require_sound.hpp>

namespace sinew::parallel {
namespace {

class Sharding {
 public:
  Sharding(const std::vector<Action>& actions, std::size_t most) : actions_(actions), most_(most) {
    for (const Action& a : actions) {
      if (is_compute(a.kind)) computes_.push_back(a.stage);
    }
  }

  std::vector<Action> run() {
    std::size_t compute = 0;
    for (const Action& a : actions_) {
      if (is_compute(a.kind)) want(compute++);
      result_.push_back(a);
    }
    give_up_all_but({});
    return std::move(result_);
  }

 private:
  /// Before that compute: the next stages that are needed, and no others, unless these are the same as before.
  void want(std::size_t compute) {
    if (compute > 0 && computes_[compute] == computes_[compute - 1]) return;
    std::vector<std::int32_t> wanted;
    for (std::size_t i = compute; i < computes_.size() && wanted.size() < most_; ++i) {
      if (std::ranges::find(wanted, computes_[i]) == wanted.end()) wanted.push_back(computes_[i]);
    }
    give_up_all_but(wanted);
    for (const std::int32_t s : wanted) {
      if (std::ranges::find(whole_, s) != whole_.end()) continue;
      whole_.push_back(s);
      result_.push_back({ActionKind::Unshard, s});
    }
  }

  void give_up_all_but(const std::vector<std::int32_t>& wanted) {
    std::erase_if(whole_, [&](std::int32_t s) {
      const bool leaves = std::ranges::find(wanted, s) == wanted.end();
      if (leaves) result_.push_back({ActionKind::Reshard, s});
      return leaves;
    });
  }

  const std::vector<Action>& actions_;
  std::size_t most_;
  std::vector<std::int32_t> computes_;  // their stages
  std::vector<std::int32_t> whole_;     // stages
  std::vector<Action> result_;
};

}  // namespace

PipelineSchedule with_sharding(PipelineSchedule schedule, std::int32_t active, ReduceEvery every) {
  if (active < 1)
    throw Error(Code::InvalidArgument, fmt::format("with_sharding: {} active stages: expected 1 or more", active));
  require_sound(schedule, "with_sharding", {ActionKind::Unshard, ActionKind::Reshard, ActionKind::Reduce});
  schedule = with_reduce(std::move(schedule), every);
  for (std::vector<Action>& actions : schedule.actions)
    actions = Sharding(actions, static_cast<std::size_t>(active)).run();
  return schedule;
}

PipelineSchedule with_sharding_of_passes(PipelineSchedule schedule, ReduceEvery every) {
  require_sound(schedule, "with_sharding_of_passes", {ActionKind::Unshard, ActionKind::Reshard, ActionKind::Reduce});
  schedule = with_reduce(std::move(schedule), every);
  for (std::vector<Action>& actions : schedule.actions) {
    std::vector<Action> result;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const Action& a = actions[i];
      if (is_compute(a.kind)) result.push_back({ActionKind::Unshard, a.stage});
      result.push_back(a);
      const bool reduces = i + 1 < actions.size() && actions[i + 1].kind == ActionKind::Reduce;
      if ((is_compute(a.kind) && !reduces) || a.kind == ActionKind::Reduce)
        result.push_back({ActionKind::Reshard, a.stage});
    }
    actions = std::move(result);
  }
  return schedule;
}

}  // namespace sinew::parallel
