#pragma once

#include <cstdint>
#include <vector>

#include <sinew/parallel/job/engine_facts.hpp>
#include <sinew/parallel/job/job_config.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>

#include "../parameters.hpp"
#include "../parts.hpp"

namespace gpt {

/// What a rank has of a model that a pipeline cuts. Token embeddings are the first stage's, which the last one, whose
/// head they are, gets a copy of in each step.
struct RankStages {
  std::vector<std::int32_t> numbers;     ///< of its stages
  std::vector<StagePart> parts;          ///< likewise
  std::vector<std::int32_t> parameters;  ///< of the model's list, ascending
  bool has_copy = false;                 ///< of the token embeddings
};

/// Which part of a model a rank of this place computes with.
Part part_of(const sinew::parallel::JobConfig& config, const sinew::parallel::RankPlace& place);

/// All of it where there is no pipeline.
RankStages stages_of(const Shape& shape, const sinew::parallel::JobConfig& config, int pp_index);

/// What the rank's data parallelism holds, of dense parameters or of experts: its stages', one unit where there is a
/// pipeline.
std::vector<ParameterInfo> parameters_of(const Shape& shape, const sinew::parallel::JobConfig& config,
                                         const sinew::parallel::RankPlace& place, bool of_experts);

/// Bytes of activations, and of what goes between stages.
std::size_t pass_bytes(const Shape& shape, const sinew::parallel::JobConfig& config, std::int64_t samples,
                       const sinew::parallel::RankPlace& place);

}  // namespace gpt
