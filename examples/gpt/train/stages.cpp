#include "stages.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

#include <sinew/parallel/job/pipeline_schedule.hpp>
#include <sinew/parallel/pipeline/pipeline_runner.hpp>

#include "../model/model.hpp"
#include "trainer.hpp"

namespace gpt {
namespace {

namespace sp = sinew::parallel;

StagePart stage_part(const Shape& shape, std::int32_t stage, std::int32_t stages, int micro_batches, bool defers) {
  const sp::Rows blocks = sp::rows_of({}, stage, stages, shape.layers);
  return {static_cast<int>(blocks.first),
          static_cast<int>(blocks.last),
          stage == 0,
          stage + 1 == stages,
          micro_batches,
          defers};
}

void add_parameters(const Shape& shape, const StagePart& part, bool has_copy, std::vector<std::int32_t>& to) {
  if (part.embeds) to.insert(to.end(), {kTokens, kPositions});
  if (part.predicts && !has_copy) to.push_back(kTokens);
  if (part.predicts) to.insert(to.end(), {kFinalWeight, kFinalBias});
  for (int block = part.first_block; block < part.last_block; ++block) {
    const BlockParameters of = block_parameters(shape, block);
    for (std::int32_t p = of.norm1; p < of.end; ++p) to.push_back(p);
  }
}

/// Where gradients are added up sample by sample (SampleSums).
std::size_t sums_bytes(const Shape& shape, const sp::JobConfig& config, std::int64_t samples_of_pass,
                       const sp::RankPlace& place, const RankStages& stages) {
  const std::int64_t samples = samples_of_pass * config.micro_batches;
  const int height = std::countr_zero(static_cast<std::uint64_t>(samples));
  const std::vector<ParameterInfo> infos = parameters_of(shape, config, place, false);
  std::int64_t elements = 0, most = 0;
  for (const ParameterInfo& info : infos) {
    elements += info.elements() * (height + 1);
    most = std::max(most, info.elements());
  }
  if (stages.has_copy) most = std::max(most, part_of(config, place).vocabulary().count() * shape.width);
  elements += most * samples_of_pass;
  // Token embeddings wait for the other one of their two uses: of a pass, or where micro-batches overtake each other.
  const std::int64_t tokens = part_of(config, place).vocabulary().count() * shape.width;
  const bool embeds = std::ranges::any_of(stages.parts, &StagePart::embeds);
  const bool is_pipeline = sp::stages(config) > 1;
  if (embeds)
    elements +=
        tokens * (is_pipeline ? samples - height
                              : samples_of_pass - std::countr_zero(static_cast<std::uint64_t>(samples_of_pass)));
  if (stages.has_copy) elements += tokens * samples;
  if (embeds && !std::ranges::any_of(stages.parts, &StagePart::predicts)) elements += tokens * samples;
  return static_cast<std::size_t>(elements) * size_of(config.precision.gradient);
}

}  // namespace

Part part_of(const sp::JobConfig& config, const sp::RankPlace& place) {
  return {place.tp,
          config.layout.tp,
          config.sequence_parallel,
          config.decomposed,
          place.cp,
          config.layout.cp,
          sp::head_sharers(config),
          place.ep,
          config.layout.ep,
          place.etp,
          config.layout.etp,
          config.determinism == sinew::Determinism::LayoutInvariant};
}

RankStages stages_of(const Shape& shape, const sp::JobConfig& config, int pp_index) {
  RankStages all;
  if (sp::stages(config) == 1) {
    all.numbers = {0};
    all.parts = {whole_model(shape)};
  } else {
    const sp::PipelineSchedule schedule = sp::schedule_of(config);
    const std::vector<std::int32_t> live = sp::most_live(schedule);
    for (std::int32_t s = 0; s < schedule.stages(); ++s) {
      if (schedule.rank_of[static_cast<std::size_t>(s)] != pp_index) continue;
      all.numbers.push_back(s);
      all.parts.push_back(
          stage_part(shape, s, schedule.stages(), live[static_cast<std::size_t>(s)], sp::has_late_weights(schedule)));
    }
    all.has_copy = schedule.rank_of.back() == pp_index && schedule.rank_of.front() != pp_index;
  }
  for (const StagePart& part : all.parts) add_parameters(shape, part, all.has_copy, all.parameters);
  std::ranges::sort(all.parameters);
  const auto twice = std::ranges::unique(all.parameters);
  all.parameters.erase(twice.begin(), twice.end());
  return all;
}

std::vector<ParameterInfo> parameters_of(const Shape& shape, const sp::JobConfig& config, const sp::RankPlace& place,
                                         bool of_experts) {
  const std::vector<ParameterInfo> all = parameters(shape, part_of(config, place));
  const bool is_pipeline = sp::stages(config) > 1;
  std::vector<ParameterInfo> mine;
  for (const std::int32_t p : stages_of(shape, config, place.pp).parameters) {
    const ParameterInfo& info = all[static_cast<std::size_t>(p)];
    if (info.of_experts != of_experts) continue;
    mine.push_back(info);
    if (!is_pipeline) continue;
    mine.back().unit = "stages";  // gathered, and reported, once in a step
    mine.back().uses = 1;
  }
  return mine;
}

std::size_t pass_bytes(const Shape& shape, const sp::JobConfig& config, std::int64_t samples,
                       const sp::RankPlace& place) {
  const Part part = part_of(config, place);
  const ModelOptions options = model_options(config, ExpertsWay{});
  const auto count = static_cast<int>(samples);
  const RankStages stages = stages_of(shape, config, place.pp);
  std::size_t bytes = Model::activation_bytes(shape, part, options, count, stages.parts);
  if (part.invariant) bytes += sums_bytes(shape, config, samples, place, stages);
  if (sp::stages(config) == 1) return bytes;
  const auto boundary = static_cast<std::int64_t>(Model::boundary_bytes(shape, part, options, count));
  std::vector<std::int64_t> inputs(static_cast<std::size_t>(sp::stages(config)), boundary);
  inputs.front() = 0;
  bytes += sp::PipelineRunner::held_for(sp::schedule_of(config), place.pp, inputs);
  const auto tokens = static_cast<std::size_t>(part.vocabulary().count() * shape.width);
  if (stages.has_copy) bytes += tokens * (size_of(config.precision.parameter) + size_of(config.precision.gradient));
  return bytes;
}

}  // namespace gpt
