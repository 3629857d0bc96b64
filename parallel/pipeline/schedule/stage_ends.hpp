#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/parallel/pipeline/schedule/schedule.hpp>

namespace sinew::parallel {

inline std::int32_t rank_of(const PipelineSchedule& schedule, std::int32_t stage) noexcept {
  return schedule.rank_of[static_cast<std::size_t>(stage)];
}

/// Returns whether the next stage is on another rank, so that data between the two stages is sent. false for the last
/// stage, and for -1.
inline bool is_cut_after(const PipelineSchedule& schedule, std::int32_t stage) noexcept {
  return stage >= 0 && stage + 1 < schedule.stages() && rank_of(schedule, stage) != rank_of(schedule, stage + 1);
}

/// Returns whether the stage has a message of that kind.
inline bool has_message(const PipelineSchedule& schedule, ActionKind kind, std::int32_t stage) noexcept {
  const bool is_of_gradient = kind == ActionKind::SendGradient || kind == ActionKind::ReceiveGradient;
  if (schedule.forward_only && is_of_gradient) return false;
  const bool is_of_input = kind == ActionKind::ReceiveActivation || kind == ActionKind::SendGradient;
  return is_cut_after(schedule, is_of_input ? stage - 1 : stage);
}

inline bool has_messages(const PipelineSchedule& schedule) noexcept {
  return std::ranges::any_of(schedule.actions, [](const std::vector<Action>& of_rank) {
    return std::ranges::any_of(of_rank, [](const Action& a) { return is_message(a.kind); });
  });
}

}  // namespace sinew::parallel
