#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/parallel/pipeline/schedule/action.hpp>

namespace sinew::parallel {

/// What every rank of a pipeline does in one step, as data. Stage s + 1 goes on with what stage s puts out; where both
/// are on one rank nothing is sent between them.
/// Shape: every value of rank_of is an index into actions; a rank may have no stage, and then no actions.
struct PipelineSchedule {
  std::string name;
  std::int32_t micro_batches = 0;
  std::vector<std::int32_t> rank_of;         ///< by stage
  std::vector<std::vector<Action>> actions;  ///< by rank, in the order in which it takes them

  std::int32_t stages() const noexcept { return static_cast<std::int32_t>(rank_of.size()); }
  std::int32_t ranks() const noexcept { return static_cast<std::int32_t>(actions.size()); }

  friend bool operator==(const PipelineSchedule&, const PipelineSchedule&) = default;
};

}  // namespace sinew::parallel
