#pragma once

#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/parallel/planner/costs/collective_costs.hpp>
#include <sinew/parallel/planner/costs/stage_times.hpp>

namespace sinew::parallel {

/// What a step takes beside its passes, of the rank that takes most; of exchanges what no computing hides.
struct DataTimes {
  Seconds gradients = 0;   ///< summed over data- and context-parallel ranks
  Seconds parameters = 0;  ///< gathered
  Seconds embeddings = 0;  ///< of a pipeline's ends, where they are tied
  Seconds optimizer = 0;

  Seconds total() const noexcept { return gradients + parameters + embeddings + optimizer; }
};

/// Model:  without a pipeline gradients are summed beside the backward pass of the last micro-batch, but for those of
///         the last layer, and sharded parameters are gathered one layer ahead, in each pass. In a pipeline both are
///         waited for, as a rank's stages are one unit (docs/adr/0017). What is gathered behind the update is waited
///         for. The update reads and writes 30 bytes for each element that a rank owns.
/// Shape:  stages: stage_passes() of the same configuration.
SINEW_API DataTimes data_times(const PlanQuestion& question, const JobConfig& config,
                               const std::vector<StagePasses>& stages, CollectiveCosts& costs);

}  // namespace sinew::parallel
