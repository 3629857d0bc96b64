#pragma once

#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/parallel/planner/costs/collective_costs.hpp>
#include <sinew/parallel/planner/costs/stage_times.hpp>

namespace sinew::parallel {

/// The time of a step besides its passes, for the rank that takes most. Only the exposed time of an exchange counts,
/// during which the rank does not compute.
struct DataTimes {
  Seconds gradients = 0;   ///< the sum of gradients over data- and context-parallel ranks
  Seconds parameters = 0;  ///< the gather of parameters
  Seconds embeddings = 0;  ///< the sum over the first and the last stage of a pipeline, if embeddings are tied
  Seconds optimizer = 0;

  Seconds total() const noexcept { return gradients + parameters + embeddings + optimizer; }
};

/// Model: without a pipeline, gradients are summed during the backward pass of the last microbatch. Only the sum of the
///        layer that ends last is exposed. Parameters of ZeRO 3 are gathered one layer ahead, in each pass. In a
///        pipeline both exchanges are exposed, because a rank's stages are one unit (docs/adr/0017). With
///        PlanQuestion::stage_actions they run beside the stages, and the result has none of their time: simulate()
///        finds what is exposed. Gathers after the update are exposed. The update reads and writes 30 bytes for
///        each element that a rank owns, in its memory or in its store.
/// Shape: stages: stage_passes() of the same configuration.
SINEW_API DataTimes data_times(const PlanQuestion& question, const JobConfig& config,
                               const std::vector<StagePasses>& stages, CollectiveCosts& costs);

}  // namespace sinew::parallel
