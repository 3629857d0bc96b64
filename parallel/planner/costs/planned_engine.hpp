#pragma once

#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/job/engine_facts.hpp>
#include <sinew/parallel/placement/rows.hpp>
#include <sinew/parallel/planner/costs/question.hpp>
#include <sinew/parallel/planner/model/model_weights.hpp>

namespace sinew::parallel {

/// Layers of each stage, as even as can be.
SINEW_API std::vector<Rows> layers_of_stages(std::int64_t layers, int stages);

/// What a rank of this place holds: of the layers of its stages, and what is before the first and behind the last.
/// Token embeddings that are tied belong to the first stage (docs/adr/0017).
SINEW_API std::vector<DataParameter> planned_parameters(const ModelShape& model, const JobConfig& config,
                                                        const RankPlace& place, bool of_experts);

/// What a rank of a pipeline keeps of activations, in bytes.
struct StageActivations {
  double each = 0;    ///< for each of its stages' micro-batches that are under way
  double output = 0;  ///< for each that is under way in the last stage, which has the logits
  double once = 0;

  double sum(std::int32_t stages, std::int32_t outputs) const noexcept {
    return stages * each + outputs * output + once;
  }
};

/// By rank of the pipeline.
SINEW_API std::vector<StageActivations> planned_activations(const PlanQuestion& question, const JobConfig& config);

/// An engine of this model as a Job sees it: so the rules that are asked about a plan are those of a Job.
/// Lifetime: none; it keeps a copy of the question.
SINEW_API EngineFacts planned_engine(const PlanQuestion& question);

}  // namespace sinew::parallel
