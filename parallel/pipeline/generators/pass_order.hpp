#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <sinew/parallel/pipeline/schedule/schedule.hpp>

namespace sinew::parallel {

/// A schedule whose ranks have nothing to do yet, stage s on rank s mod ranks.
/// Errors: InvalidArgument as generators.hpp says.
PipelineSchedule without_actions(std::string_view name, std::int32_t ranks, std::int32_t micro_batches,
                                 std::int32_t virtual_stages);

/// A pass of one micro-batch through one stage.
struct StagePass {
  std::int32_t stage = 0, micro_batch = 0;
};

/// Takes `ahead` forward passes, then a forward and a backward pass in turn while there are forward passes, then the
/// backward passes that are left.
/// Shape: as many of one kind as of the other.
std::vector<Action> in_turn(const std::vector<StagePass>& forward, const std::vector<StagePass>& backward,
                            std::int32_t ahead);

}  // namespace sinew::parallel
