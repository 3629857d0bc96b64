#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sinew/parallel/pipeline/schedule/schedule.hpp>

namespace sinew::parallel {

/// A fault of a schedule, and its place.
struct ScheduleFault {
  std::string what;
  std::int32_t rank = -1;   ///< -1: the fault is not about one rank
  std::int32_t index = -1;  ///< among the rank's actions; -1: the fault is not about an action of the schedule
};

/// Finds actions of a schedule. Actions are numbered rank by rank, in the order in which ranks take them.
class Inventory {
 public:
  explicit Inventory(const PipelineSchedule& schedule);

  /// The first action that is out of range, or on a rank that does not have its stage, or there twice. If there is a
  /// fault, none of the other functions may be called.
  const std::optional<ScheduleFault>& fault() const noexcept { return fault_; }

  const PipelineSchedule& schedule() const noexcept { return schedule_; }
  std::int32_t count() const noexcept { return static_cast<std::int32_t>(actions_.size()); }
  const Action& action(std::int32_t number) const noexcept { return actions_[static_cast<std::size_t>(number)]; }
  std::int32_t rank(std::int32_t number) const noexcept { return ranks_[static_cast<std::size_t>(number)]; }
  /// The number of the rank's first action. first(ranks()) is one past the last action of all.
  std::int32_t first(std::int32_t rank) const noexcept { return first_[static_cast<std::size_t>(rank)]; }

  /// The number of an action. -1: there is none. If an action without a microbatch is there several times, the last.
  std::int32_t find(ActionKind kind, std::int32_t stage, std::int32_t micro_batch = -1) const noexcept {
    return places_[place(kind, stage, micro_batch)];
  }
  /// The action that makes the gradient of the stage's input.
  std::int32_t find_input_gradient(std::int32_t stage, std::int32_t micro_batch) const noexcept {
    const std::int32_t whole = find(ActionKind::Backward, stage, micro_batch);
    return whole >= 0 ? whole : find(ActionKind::InputGradient, stage, micro_batch);
  }
  /// The action that makes the gradient of the stage's parameters.
  std::int32_t find_weight_gradient(std::int32_t stage, std::int32_t micro_batch) const noexcept {
    const std::int32_t whole = find(ActionKind::Backward, stage, micro_batch);
    return whole >= 0 ? whole : find(ActionKind::WeightGradient, stage, micro_batch);
  }

 private:
  std::size_t place(ActionKind kind, std::int32_t stage, std::int32_t micro_batch) const noexcept {
    const auto stages = static_cast<std::size_t>(schedule_.stages());
    const auto micro_batches = static_cast<std::size_t>(schedule_.micro_batches);
    const std::size_t row = static_cast<std::size_t>(kind) * stages + static_cast<std::size_t>(stage);
    // Kinds without a micro-batch come last, with a place per stage.
    const std::size_t whole = static_cast<std::size_t>(ActionKind::Unshard) * stages;
    return has_micro_batch(kind) ? row * micro_batches + static_cast<std::size_t>(micro_batch)
                                 : whole * micro_batches + row - whole;
  }
  std::optional<ScheduleFault> judge_sizes() const;
  std::string judge(const Action& action, std::int32_t rank) const;
  void number_actions();

  const PipelineSchedule& schedule_;
  std::optional<ScheduleFault> fault_;
  std::vector<Action> actions_;
  std::vector<std::int32_t> ranks_, first_, places_;
};

/// "rank 1: 1F0 a second time".
std::string to_string(const ScheduleFault& fault);

}  // namespace sinew::parallel
