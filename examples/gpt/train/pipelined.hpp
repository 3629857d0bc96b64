#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <sinew/parallel/data_parallel/weighted_loss.hpp>
#include <sinew/parallel/job/job.hpp>
#include <sinew/parallel/pipeline/pipeline_runner.hpp>

#include "../model/model.hpp"
#include "options.hpp"
#include "stage_store.hpp"

namespace gpt {

/// The changes that a step makes to its gradients before they are summed.
struct GradientScale {
  double scale = 1;        ///< multiplies the loss
  bool overflows = false;  ///< one gradient of this rank becomes infinite before it is summed
};

/// Micro-batches of a step through the stages that this rank has, as the schedule says.
class Pipelined final : private sinew::parallel::StageEngine {
 public:
  /// list: all parameters of the model. Lifetime: ends before all others of these.
  Pipelined(sinew::parallel::Job& job, const Options& options, const RankStages& stages, Model& model,
            const std::vector<ParameterInfo>& list);

  /// The losses of this rank's micro-batches where it has the head. Adds the scaled gradients of their sum.
  sinew::parallel::WeightedLoss step(const std::vector<std::uint8_t>& sequences, std::int64_t step,
                                     std::int64_t first_sample, const GradientScale& gradients);

  /// Of its runner: what it computed and what it waited for.
  const sinew::parallel::PipelineRunner& runner() const noexcept { return *runner_; }
  std::size_t held_bytes() const noexcept;

 private:
  std::size_t output_bytes(std::int32_t stage) const override;
  std::size_t forward(std::int32_t stage, std::int32_t micro_batch, sinew::ConstBuffer in, sinew::Buffer out) override;
  std::size_t backward(std::int32_t stage, std::int32_t micro_batch, sinew::ConstBuffer dout,
                       sinew::Buffer din) override;
  std::size_t input_gradient(std::int32_t stage, std::int32_t micro_batch, sinew::ConstBuffer dout,
                             sinew::Buffer din) override;
  void weight_gradient(std::int32_t stage, std::int32_t micro_batch) override;

  /// The stage among this rank's, and the place of the micro-batch in it.
  StageCall call(std::int32_t stage, std::int32_t micro_batch) const;
  void take_place(std::int32_t stage, std::int32_t micro_batch);
  void leave_place(std::int32_t stage, std::int32_t micro_batch);

  sinew::parallel::Job* job_;
  const Options* options_;
  RankStages stages_;
  Model* model_;
  std::int64_t tokens_;  // elements of the token embeddings
  StageStore store_;
  sinew::Communicator ends_;  // the ranks with the token embeddings and their copy
  std::unique_ptr<sinew::parallel::PipelineRunner> runner_;
  std::vector<std::vector<std::int32_t>> places_;  // by stage of this rank: the micro-batch in each, or none: -1
  const std::vector<std::uint8_t>* sequences_ = nullptr;
  std::int64_t step_ = 0, first_sample_ = 0;
  double scale_ = 1;  // of the step's loss
  sinew::parallel::WeightedLoss loss_;
};

}  // namespace gpt
