#pragma once

#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/job/engine_facts.hpp>
#include <sinew/parallel/placement/rows.hpp>
#include <sinew/parallel/planner/costs/question.hpp>
#include <sinew/parallel/planner/model/model_weights.hpp>

namespace sinew::parallel {

/// The layers of each stage, divided as evenly as possible.
SINEW_API std::vector<Rows> layers_of_stages(std::int64_t layers, int stages);

/// The parameters of a rank at this place: those of its stages' layers, and those before the first and after the last
/// layer. The table of tied token embeddings belongs to the first stage (docs/adr/0017). Without a pipeline each layer
/// is a unit, and the others are the unit "root". In a pipeline all parameters of a rank are one unit. With
/// PlanQuestion::stage_actions, each layer is one there too, and the others are the units "input" and "output".
SINEW_API std::vector<DataParameter> planned_parameters(const PlanQuestion& question, const JobConfig& config,
                                                        const RankPlace& place, bool of_experts);

/// The activations that a rank of a pipeline keeps, in bytes.
struct StageActivations {
  double each = 0;    ///< for each microbatch in flight in one of its stages
  double output = 0;  ///< for each microbatch in flight in the last stage, which has the logits
  double once = 0;
  double stored_each = 0;  ///< in the store, for each microbatch in flight in one of its stages

  double sum(std::int32_t stages, std::int32_t outputs) const noexcept {
    return stages * each + outputs * output + once;
  }
};

/// The activations that each pipeline rank keeps.
SINEW_API std::vector<StageActivations> planned_activations(const PlanQuestion& question, const JobConfig& config);

/// Describes an engine for the model of the question. The rules of a Job can thus judge plans, too.
/// Lifetime: none; the result has a copy of the question.
SINEW_API EngineFacts planned_engine(const PlanQuestion& question);

}  // namespace sinew::parallel
