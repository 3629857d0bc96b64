#include "plan.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <sinew/parallel/invariant/invariant_blas.hpp>
#include <sinew/parallel/invariant/leaves.hpp>
#include <sinew/parallel/job/pipeline_schedule.hpp>
#include <sinew/parallel/modules/models/job_groups.hpp>
#include <sinew/parallel/modules/models/pipelined_model.hpp>
#include <sinew/parallel/modules/models/planned_bytes.hpp>
#include <sinew/parallel/modules/sample_sums.hpp>

namespace gpt {
namespace {

/// The unit of parameters outside blocks.
constexpr const char* kOutside = "root";

/// The modules of a rank that need not exist. T: only sizes of arrays depend on it.
template <class T>
class PlannedModel {
 public:
  PlannedModel(const Shape& shape, const sp::JobConfig& config, std::int64_t samples, const sp::RankPlace& place)
      : ranks_(config, place), parts_(shape, config, {}, samples, ranks_.groups(), blas_, {}) {
    for (const StagePart& part : stages_of(shape, config, place.pp)) {
      numbers_.push_back(part.number);
      modules_.push_back(parts_.stage(part));
    }
  }
  PlannedModel(const PlannedModel&) = delete;
  PlannedModel& operator=(const PlannedModel&) = delete;

  const std::vector<sp::ModulePtr<T>>& modules() const noexcept { return modules_; }
  const ModelParts<T>& parts() const noexcept { return parts_; }

  sp::ParameterList parameters(const sp::JobConfig& config) {
    sp::ParameterList list(like_of(config));
    for (std::size_t i = 0; i < modules_.size(); ++i) {
      if (sp::stages(config) > 1) list.set_outer_unit(sp::stage_unit(kOutside, numbers_[i]));
      modules_[i]->declare(list);
    }
    return list;
  }

 private:
  sp::PlannedGroups ranks_;
  sp::InvariantBlas blas_;  // multiplies nothing
  ModelParts<T> parts_;
  std::vector<std::int32_t> numbers_;  // of stages
  std::vector<sp::ModulePtr<T>> modules_;
};

std::int32_t stage_of_unit(const Shape& shape, const sp::JobConfig& config, const std::string& unit) {
  if (unit == kOutside) return sp::kSharedByStages;
  const int stages = sp::stages(config);
  for (std::int32_t s = 0; s < stages; ++s) {
    if (unit == sp::stage_unit(kOutside, s)) return s;
    const sp::Rows blocks = sp::rows_of({}, s, stages, shape.layers);
    for (std::int64_t block = blocks.first; block < blocks.last; ++block) {
      if (unit == fmt::format("blocks.{}", block)) return s;
    }
  }
  return sp::kSharedByStages;
}

std::string why_not_invariant(const Shape& shape) {
  if (shape.has_experts()) return "the sum over an expert's tokens goes by ranks that they come from";
  if (shape.has_scans()) return "what a selective scan sums up goes by pieces of a sequence";
  return shape.sinks ? "gradients of sinks are sums over a rank's queries" : "";
}

/// The most ranks that may share layers, if sums are to be layout-invariant: each has the same number of leaf blocks.
int most_invariant_tp(const Shape& shape) noexcept {
  std::int64_t most = sp::leaves_of(kVocabulary);
  for (const std::int64_t heads : {shape.heads, shape.shared_heads()})
    most = std::min({most, sp::power_of_two_in(heads), sp::leaves_of(heads * shape.head_width())});
  return static_cast<int>(most);
}

template <class T>
std::size_t pass_bytes_in(const Shape& shape, const sp::JobConfig& config, std::int64_t samples,
                          const sp::RankPlace& place) {
  PlannedModel<T> model(shape, config, samples, place);
  const sp::ParameterList list = model.parameters(config);
  const bool is_pipeline = sp::stages(config) > 1;
  std::size_t bytes = model.parts().planned_shared_bytes();
  if (config.determinism == sinew::Determinism::LayoutInvariant)
    bytes += sp::SampleSums<T>::planned_bytes(list, samples, samples * config.micro_batches, is_pipeline);
  if (!is_pipeline) return bytes + sp::planned_bytes(model.modules(), list);
  const sp::PipelineSchedule schedule = sp::schedule_of(config);
  return bytes + sp::planned_bytes(model.modules(), list, &schedule, place.pp);
}

}  // namespace

std::vector<StagePart> stages_of(const Shape& shape, const sp::JobConfig& config, int pp_index) {
  if (sp::stages(config) == 1) return {StagePart{.last_block = shape.layers}};
  const sp::PipelineSchedule schedule = sp::schedule_of(config);
  std::vector<StagePart> mine;
  for (std::int32_t s = 0; s < schedule.stages(); ++s) {
    if (schedule.rank_of[static_cast<std::size_t>(s)] != pp_index) continue;
    const sp::Rows blocks = sp::rows_of({}, s, schedule.stages(), shape.layers);
    const bool is_last = s + 1 == schedule.stages();
    mine.push_back({.number = s,
                    .first_block = static_cast<int>(blocks.first),
                    .last_block = static_cast<int>(blocks.last),
                    .embeds = s == 0,
                    .predicts = is_last,
                    .tokens_are_elsewhere = is_last && schedule.rank_of.front() != pp_index});
  }
  return mine;
}

sp::DataParameter like_of(const sp::JobConfig& config) {
  return {.dtype = config.precision.parameter, .unit = kOutside, .gradient = config.precision.gradient, .spread = "pp"};
}

sp::ParameterList parameters_of(const Shape& shape, const sp::JobConfig& config, const sp::RankPlace& place) {
  return PlannedModel<float>(shape, config, 1, place).parameters(config);
}

std::size_t pass_bytes(const Shape& shape, const sp::JobConfig& config, std::int64_t samples,
                       const sp::RankPlace& place) {
  return config.precision.parameter == sinew::DType::F64 ? pass_bytes_in<double>(shape, config, samples, place)
                                                         : pass_bytes_in<float>(shape, config, samples, place);
}

sp::EngineFacts engine_facts(const Shape& shape) {
  using Config = sp::JobConfig;
  using Place = sp::RankPlace;
  const std::int64_t most_cp = std::max<std::int64_t>(sp::leaves_of(shape.context) / 2, 1);  // two pieces, in zig-zag
  sp::EngineFacts engine{
      .axes = {"dp", "tp", "cp", "pp"},
      .most_tp = shape.heads,
      .most_pp = shape.layers,
      .most_cp = shape.context,
      .sequence_parallel = true,
      .parameters = [shape](const Config& c,
                            const Place& place) { return parameters_of(shape, c, place).dense().parameters; },
      .activation_bytes = [shape](const Config& c, std::int64_t samples,
                                  const Place& place) { return pass_bytes(shape, c, samples, place); },
      .takes_stage_actions = true,
      .stage_of_unit = [shape](const Config& c, const std::string& unit) { return stage_of_unit(shape, c, unit); },
      .outer_unit = kOutside,
      .invariant = {.why_not = why_not_invariant(shape), .most_tp = most_invariant_tp(shape), .most_cp = most_cp}};
  if (!shape.has_experts()) return engine;
  engine.axes.insert(engine.axes.end(), {"ep", "etp"});
  engine.experts = shape.experts.count;
  engine.most_etp = shape.inner();
  engine.expert_parameters = [shape](const Config& c, const Place& place) {
    return parameters_of(shape, c, place).experts().parameters;
  };
  return engine;
}

}  // namespace gpt
