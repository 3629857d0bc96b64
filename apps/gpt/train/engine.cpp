#include "engine.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <utility>

#include <sinew/parallel/invariant/invariant_blas.hpp>
#include <sinew/parallel/invariant/leaves.hpp>
#include <sinew/parallel/job/pipeline_schedule.hpp>
#include <sinew/parallel/modules/models/model.hpp>
#include <sinew/parallel/modules/models/pipelined_model.hpp>
#include <sinew/parallel/offload/file_store.hpp>

#include "../model/model.hpp"
#include "pass_data.hpp"
#include "plan.hpp"

namespace gpt {
namespace {

bool is_invariant(const sp::JobConfig& config) noexcept {
  return config.determinism == sinew::Determinism::LayoutInvariant;
}

/// This rank's rows of a sample, in leaf blocks of positions that all ranks have alike.
sp::LeafRows rows_of_sample(const Shape& shape, const sp::TokenPlaces& places) {
  return {std::ssize(places.positions()), shape.context / sp::leaves_of(shape.context), true};
}

template <class T>
class EngineOf final : public Engine {
 public:
  EngineOf(sp::Job& job, const Options& options, sp::RouterStates& routers, sp::Blas& blas)
      : job_(&job),
        options_(&options),
        parts_(options.shape, options.job, options.experts, job.samples_of_pass(), sp::groups_of(job), blas,
               services_of(options, routers)) {
    const std::vector<StagePart> stages = stages_of(options.shape, options.job, job.place().pp);
    const sp::DataParameter like = like_of(options.job);
    sp::DataParallel* const experts = job.has_experts() ? &job.experts() : nullptr;
    if (is_invariant(options.job))
      sums_.emplace(sp::CallGroup(job.context()), options.job.global_batch / job.sample_ranks(),
                    rows_of_sample(options.shape, parts_.places()));
    if (sp::stages(options.job) == 1) {
      model_.emplace(job.data(), experts, parts_.stage(stages.front()), like);
      model_->set_sample_sums(sums());
      return;
    }
    std::vector<sp::ModulePtr<T>> modules;
    for (const StagePart& part : stages) modules.push_back(parts_.stage(part));
    sp::PipelineEnds<T> ends{
        .batch = [this](std::int32_t number) { return batches_[static_cast<std::size_t>(number)].batch(); }};
    pipelined_.emplace(job.data(), experts, sp::CallGroup(job.pipeline()), job.schedule(), std::move(modules),
                       std::move(ends), like);
    pipelined_->set_sample_sums(sums());
  }

  sp::WeightedLoss step(const StepSamples& samples, const GradientScale& gradients) override {
    if (sums_) sums_->losses() = {};
    read(samples);
    if (pipelined_) {
      faults_.overflows = gradients.overflows;
      return weighted(pipelined_->step(gradients.scale));
    }
    sp::WeightedLoss loss;
    for (PassData& batch : batches_) {
      const bool is_last = &batch == &batches_.back();
      std::vector<sp::DataParallel::Scope> scopes;
      for (sp::DataParallel* data : held()) {
        if (!is_last) scopes.push_back(data->no_sync());
      }
      faults_.overflows = is_last && gradients.overflows;
      loss += weighted(model_->forward(batch.batch(), nullptr, nullptr));
      model_->backward(nullptr, nullptr, gradients.scale);
      for (sp::DataParallel* data : held()) {
        if (!is_last) static_cast<void>(data->finish_backward());
      }
    }
    return loss;
  }

  sp::ExactSum* exact_losses() override { return sums_ ? &sums_->losses() : nullptr; }

  double take_waited_s() override {
    if (model_) return std::chrono::duration<double>(model_->take_waited()).count();
    const double all = pipelined_->runner().waited_s();
    return all - std::exchange(waited_s_, all);
  }

  std::size_t held_bytes() const override {
    return parts_.shared_bytes() + (sums_ ? sums_->held_bytes() : 0) +
           (model_ ? model_->held_bytes() : pipelined_->held_bytes());
  }

  std::string explain() const override { return pipelined_ ? "\n" + pipelined_->runner().explain() : ""; }

 private:
  ModelServices services_of(const Options& options, sp::RouterStates& routers) {
    ModelServices all{.routers = &routers, .faults = options.overflow_at.empty() ? nullptr : &faults_};
    if (!options.offload.empty()) all.store = std::make_shared<sp::FileStore>(options.offload);
    return all;
  }
  static sp::WeightedLoss weighted(const sp::TokenLoss& loss) { return {loss.sum, static_cast<double>(loss.tokens)}; }
  sp::SampleSums<T>* sums() { return sums_ ? &*sums_ : nullptr; }
  std::vector<sp::DataParallel*> held() {
    std::vector<sp::DataParallel*> all{&job_->data()};
    if (job_->has_experts()) all.push_back(&job_->experts());
    return all;
  }
  void read(const StepSamples& samples) {
    const std::int64_t each = job_->samples_of_pass();
    const auto bytes = static_cast<std::size_t>(each * (options_->shape.context + 1));
    batches_.resize(static_cast<std::size_t>(options_->job.micro_batches));
    for (std::size_t m = 0; m < batches_.size(); ++m)
      batches_[m].read(options_->shape, parts_.places(), std::span(samples.sequences).subspan(m * bytes, bytes),
                       samples.step, samples.first + static_cast<std::int64_t>(m) * each);
  }

  sp::Job* job_;
  const Options* options_;
  PlantedFaults faults_;
  ModelParts<T> parts_;
  std::optional<sp::SampleSums<T>> sums_;
  std::vector<PassData> batches_;  // of the step
  std::optional<sp::Model<T>> model_;
  std::optional<sp::PipelinedModel<T>> pipelined_;  // instead, if there are several stages
  double waited_s_ = 0;                             // by the pipeline, when somebody last asked
};

}  // namespace

std::unique_ptr<Engine> make_engine(sp::Job& job, const Options& options, sp::RouterStates& routers, sp::Blas& blas) {
  if (options.job.precision.parameter == sinew::DType::F64)
    return std::make_unique<EngineOf<double>>(job, options, routers, blas);
  return std::make_unique<EngineOf<float>>(job, options, routers, blas);
}

}  // namespace gpt
