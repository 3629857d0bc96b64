#include "pipelined.hpp"

#include <algorithm>
#include <utility>

#include <sinew/parallel/job/pipeline_schedule.hpp>

#include "trainer.hpp"

namespace gpt {

namespace sp = sinew::parallel;

namespace {

/// Of the first and the last stage, where these are on two ranks; empty on all others.
sinew::Communicator ends_of(sinew::Communicator& pipeline, const sp::PipelineSchedule& schedule) {
  const std::int32_t first = schedule.rank_of.front(), last = schedule.rank_of.back();
  if (first == last) return {};
  const bool is_end = pipeline.rank() == first || pipeline.rank() == last;
  sinew::Communicator ends = pipeline.split(is_end ? 0 : 1, pipeline.rank() == first ? 0 : 1);
  return is_end ? std::move(ends) : sinew::Communicator();
}

}  // namespace

Pipelined::Pipelined(sp::Job& job, const Options& options, const RankStages& stages, Model& model,
                     const std::vector<ParameterInfo>& list)
    : job_(&job),
      options_(&options),
      stages_(stages),
      model_(&model),
      tokens_(list[kTokens].elements()),
      store_(job, stages, list) {
  sp::PipelineSchedule schedule = sp::schedule_of(options.job);
  ends_ = ends_of(job.pipeline(), schedule);
  for (const StagePart& part : stages.parts) places_.emplace_back(static_cast<std::size_t>(part.micro_batches), -1);
  std::vector<sp::StepProtocol*> steps{&job.data().protocol()};
  if (job.has_experts()) steps.push_back(&job.experts().protocol());
  runner_ = std::make_unique<sp::PipelineRunner>(sp::CallGroup(job.pipeline()), std::move(schedule),
                                                 static_cast<sp::StageEngine&>(*this), steps);
}

sp::WeightedLoss Pipelined::step(const std::vector<std::uint8_t>& sequences, std::int64_t step,
                                 std::int64_t first_sample, const GradientScale& gradients) {
  scale_ = gradients.scale;
  sequences_ = &sequences;
  step_ = step;
  first_sample_ = first_sample;
  loss_ = {};
  const sp::Precision& precision = options_->job.precision;
  store_.begin();
  if (ends_.size() > 1) {  // the head gets the embeddings, and gives their gradients back
    store_.clear_gradient_of_copy();
    if (job_->config().determinism == sinew::Determinism::LayoutInvariant)
      static_cast<void>(model_->head_gradients(tokens_));  // there is to be room for them
    ends_.broadcast(store_.parameter(kTokens), precision.parameter, 0).get();
  }
  runner_->run();
  if (ends_.size() > 1) {
    if (job_->config().determinism == sinew::Determinism::LayoutInvariant) {
      ends_.broadcast(model_->head_gradients(tokens_), precision.gradient, 1).get();
      if (ends_.rank() == 0) model_->add_head_gradients(store_);
    } else {
      const sinew::Buffer gradient = store_.gradient(kTokens);
      ends_.reduce(sinew::ConstBuffer(gradient), gradient, precision.gradient, 0, sinew::ReduceOp::Sum).get();
    }
  }
  store_.end(gradients.overflows);
  return loss_;
}

std::size_t Pipelined::held_bytes() const noexcept { return runner_->held_bytes() + store_.held_bytes(); }

std::size_t Pipelined::output_bytes(std::int32_t stage) const {
  if (stage + 1 == sp::stages(options_->job)) return 0;
  return Model::boundary_bytes(options_->shape, part_of(options_->job, job_->place()),
                               model_options(options_->job, options_->experts),
                               static_cast<int>(job_->samples_of_pass()));
}

StageCall Pipelined::call(std::int32_t stage, std::int32_t micro_batch) const {
  const auto own = std::ranges::find(stages_.numbers, stage) - stages_.numbers.begin();
  const auto& places = places_[static_cast<std::size_t>(own)];
  return {static_cast<int>(own), static_cast<int>(std::ranges::find(places, micro_batch) - places.begin())};
}

void Pipelined::take_place(std::int32_t stage, std::int32_t micro_batch) {
  auto& places = places_[static_cast<std::size_t>(call(stage, micro_batch).stage)];
  *std::ranges::find(places, -1) = micro_batch;
}

void Pipelined::leave_place(std::int32_t stage, std::int32_t micro_batch) {
  const StageCall at = call(stage, micro_batch);
  places_[static_cast<std::size_t>(at.stage)][static_cast<std::size_t>(at.slot)] = -1;
}

std::size_t Pipelined::forward(std::int32_t stage, std::int32_t micro_batch, sinew::ConstBuffer in, sinew::Buffer out) {
  const auto length = static_cast<std::size_t>(options_->shape.context) + 1;
  const std::int64_t samples = job_->samples_of_pass();
  const auto mine = std::span(*sequences_)
                        .subspan(static_cast<std::size_t>(micro_batch * samples) * length,
                                 static_cast<std::size_t>(samples) * length);
  take_place(stage, micro_batch);
  const sp::TokenLoss loss =
      model_->forward(store_, call(stage, micro_batch), mine, static_cast<int>(samples),
                      {static_cast<std::uint64_t>(step_), first_sample_ + micro_batch * samples}, in, out);
  loss_ += {loss.sum, static_cast<double>(loss.tokens)};
  return out.bytes;
}

std::size_t Pipelined::backward(std::int32_t stage, std::int32_t micro_batch, sinew::ConstBuffer dout,
                                sinew::Buffer din) {
  model_->backward(store_, call(stage, micro_batch), scale_, dout, din);
  leave_place(stage, micro_batch);
  return din.bytes;
}

std::size_t Pipelined::input_gradient(std::int32_t stage, std::int32_t micro_batch, sinew::ConstBuffer dout,
                                      sinew::Buffer din) {
  model_->backward_input(store_, call(stage, micro_batch), scale_, dout, din);
  return din.bytes;
}

void Pipelined::weight_gradient(std::int32_t stage, std::int32_t micro_batch) {
  model_->backward_weights(call(stage, micro_batch));
  leave_place(stage, micro_batch);
}

}  // namespace gpt
