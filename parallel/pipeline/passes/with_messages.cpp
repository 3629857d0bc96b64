#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/passes/require_sound.hpp>
#include <sinew/parallel/pipeline/schedule/stage_ends.hpp>
#include <sinew/parallel/pipeline/timeline/simulate.hpp>

namespace sinew::parallel {
namespace {

/// A message, when it is sent and by which rank, which says in which order receives of one moment are posted.
struct Arrival {
  std::int64_t time = 0;
  std::int32_t from = 0;
  Action receive;
};

class Placing {
 public:
  Placing(const PipelineSchedule& schedule, std::size_t ahead)
      : schedule_(schedule),
        ahead_(ahead),
        line_(simulate(schedule)),
        sends_(schedule.actions.size()),
        arrivals_(sends_.size()) {
    for (std::size_t r = 0; r < sends_.size(); ++r) sends_[r].resize(schedule.actions[r].size());
  }

  std::vector<std::vector<Action>> run() {
    for (std::size_t r = 0; r < sends_.size(); ++r) {
      for (std::size_t i = 0; i < schedule_.actions[r].size(); ++i) send(r, i);
    }
    std::vector<std::vector<Action>> actions;
    for (std::size_t r = 0; r < sends_.size(); ++r) actions.push_back(placed(r));
    return actions;
  }

 private:
  /// Adds the message that an action of a rank makes, if any.
  void send(std::size_t rank, std::size_t index) {
    const Action& a = schedule_.actions[rank][index];
    const bool onward = a.kind == ActionKind::Forward;
    if (!onward && a.kind != ActionKind::Backward && a.kind != ActionKind::InputGradient) return;
    const ActionKind kind = onward ? ActionKind::SendActivation : ActionKind::SendGradient;
    if (!has_message(schedule_, kind, a.stage)) return;
    const Action receive{onward ? ActionKind::ReceiveActivation : ActionKind::ReceiveGradient,
                         a.stage + (onward ? 1 : -1), a.micro_batch};
    sends_[rank][index].push_back({kind, a.stage, a.micro_batch});
    arrivals_[static_cast<std::size_t>(rank_of(schedule_, receive.stage))].push_back(
        {line_.spans[rank][index].end, static_cast<std::int32_t>(rank), receive});
  }

  /// A rank's actions with its messages.
  std::vector<Action> placed(std::size_t rank) {
    const std::vector<Action>& actions = schedule_.actions[rank];
    std::vector<Arrival>& arrivals = arrivals_[rank];
    std::ranges::stable_sort(arrivals, {}, [](const Arrival& a) { return std::pair(a.time, a.from); });
    const std::vector<std::int64_t> starts = starts_of_compute(rank);
    std::vector<Action> result;
    std::size_t next = 0, compute = 0;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (is_compute(actions[i].kind)) {
        const std::size_t later = compute++ + ahead_;
        const std::int64_t until = later < starts.size() ? starts[later] : line_.makespan;
        for (; next < arrivals.size() && arrivals[next].time <= until; ++next) result.push_back(arrivals[next].receive);
      }
      result.push_back(actions[i]);
      result.insert(result.end(), sends_[rank][i].begin(), sends_[rank][i].end());
    }
    return result;
  }

  std::vector<std::int64_t> starts_of_compute(std::size_t rank) const {
    std::vector<std::int64_t> starts;
    for (std::size_t i = 0; i < schedule_.actions[rank].size(); ++i) {
      if (is_compute(schedule_.actions[rank][i].kind)) starts.push_back(line_.spans[rank][i].start);
    }
    return starts;
  }

  const PipelineSchedule& schedule_;
  std::size_t ahead_;
  PipelineTimeLine line_;
  std::vector<std::vector<std::vector<Action>>> sends_;  // by rank and action that makes them
  std::vector<std::vector<Arrival>> arrivals_;           // by rank
};

}  // namespace

PipelineSchedule with_messages(PipelineSchedule schedule, std::int32_t ahead) {
  if (ahead < 1)
    throw Error(Code::InvalidArgument, fmt::format("with_messages: receives {} ahead: expected 1 or more", ahead));
  require_sound(schedule, "with_messages",
                {ActionKind::SendActivation, ActionKind::ReceiveActivation, ActionKind::SendGradient,
                 ActionKind::ReceiveGradient});
  schedule.actions = Placing(schedule, static_cast<std::size_t>(ahead)).run();
  return schedule;
}

}  // namespace sinew::parallel
