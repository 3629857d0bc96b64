#pragma once

#include <cstdint>
#include <vector>

#include <sinew/parallel/job/engine_facts.hpp>
#include <sinew/parallel/job/job_config.hpp>
#include <sinew/parallel/modules/parameter_list.hpp>
#include <sinew/parallel/parameter/parameter.hpp>

#include "../model/model.hpp"
#include "../shape.hpp"

namespace gpt {

/// The stages of a rank, in their order. Without a pipeline it is one, the whole model. The token embeddings belong to
/// the first stage. If the last one is on another rank, its head has a copy.
std::vector<StagePart> stages_of(const Shape& shape, const sp::JobConfig& config, int pp_index);

/// The record of all parameters of the model: their dtypes, and the unit of those outside blocks.
sp::DataParameter like_of(const sp::JobConfig& config);

/// The parameters of a rank at this place.
sp::ParameterList parameters_of(const Shape& shape, const sp::JobConfig& config, const sp::RankPlace& place);

/// The most bytes that the passes of a rank hold: activations, whatever they use, and data between stages.
/// samples: those of a pass.
std::size_t pass_bytes(const Shape& shape, const sp::JobConfig& config, std::int64_t samples,
                       const sp::RankPlace& place);

/// The description of this model for whoever plans it.
sp::EngineFacts engine_facts(const Shape& shape);

}  // namespace gpt
