#pragma once

// A pipeline's schedule as data. The room holds actions and schedules, their text and CSV, and finds what a schedule
// lacks. It includes nothing of `parallel`.

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/parallel/pipeline/schedule/action.hpp>

namespace sinew::parallel {

/// The actions of every rank of a pipeline in one step. Stage s + 1 takes the output of stage s. If both stages are on
/// one rank, nothing is sent between them.
/// Shape: every value of rank_of is an index into actions. A rank may have no stage, and then has no actions.
struct PipelineSchedule {
  std::string name{};
  std::int32_t micro_batches = 0;
  std::vector<std::int32_t> rank_of{};         ///< by stage
  std::vector<std::vector<Action>> actions{};  ///< by rank, in the order in which it takes them
  /// true: a pass without a backward half, such as an evaluation. Then no action has to do with gradients.
  bool forward_only = false;

  std::int32_t stages() const noexcept { return static_cast<std::int32_t>(rank_of.size()); }
  std::int32_t ranks() const noexcept { return static_cast<std::int32_t>(actions.size()); }

  friend bool operator==(const PipelineSchedule&, const PipelineSchedule&) = default;
};

}  // namespace sinew::parallel
