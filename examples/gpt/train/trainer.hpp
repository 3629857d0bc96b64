#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/data_parallel/weighted_loss.hpp>
#include <sinew/parallel/job/engine_facts.hpp>
#include <sinew/parallel/job/job.hpp>
#include <sinew/parallel/optim/loss_scaler.hpp>
#include <sinew/parallel/optim/optimizer.hpp>

#include "../math/blas.hpp"
#include "../model/model.hpp"
#include "../parameters.hpp"
#include "../text/text.hpp"
#include "metrics.hpp"
#include "options.hpp"
#include "pipelined.hpp"
#include "waiting_store.hpp"

namespace gpt {

/// sample_ranks: that see different samples; 0: not known, and not asked.
ModelOptions model_options(const sinew::parallel::JobConfig& config, const ExpertsWay& experts, int sample_ranks = 0);

/// What this model says of itself to whoever plans it.
sinew::parallel::EngineFacts engine_facts(const Shape& shape);

/// Trains: batches of the text through the model, on all ranks together.
/// Thread:   the World's.
/// Lifetime: ends before World and text.
class Trainer {
 public:
  /// Errors: as Job.
  Trainer(sinew::World& world, const Options& options, const Text& text);

  /// Sees what this rank owns, with the scaled gradients of the sum of the losses, before it is updated; scale makes
  /// them those of the mean. It does not see steps that are skipped. Of dense parameters first, then of experts where
  /// there are any.
  using Watcher = std::function<void(const std::vector<ParameterInfo>& infos,
                                     std::span<const sinew::parallel::OwnedPart>, double scale)>;

  /// One step, of this number: which sequences it reads and its learning rate follow from that.
  /// A step whose gradients overflow changes nothing, if the loss is scaled.
  /// Errors: as the exchanges; Error{System} where the loss is no number any more, or where gradients overflow and
  ///         neither a scale nor a lower scale is there to mend that, on all ranks alike.
  StepReport step(std::int64_t number, const Watcher& watch = {});

  /// How many steps what this rank owns has seen: also in the middle of one, and where one was not ended. Below 0: it
  /// is to be what a checkpoint says, and is not yet.
  std::int64_t steps_done() const noexcept { return steps_done_; }
  /// What it owns was filled with what it was after so many. scaling: as it was then; {}: it begins anew.
  /// Errors: as Optimizer::restore_steps and LossScaler::restore.
  void restore_steps(std::int64_t done, std::int64_t of_optimizer,
                     const std::optional<sinew::parallel::LossScaleState>& scaling = {});
  /// {}: the loss is not scaled.
  std::optional<sinew::parallel::LossScaleState> scaling() const;

  /// The most bytes that this rank has held: parameters, gradients, optimizer state, exchanges in flight, activations.
  std::size_t most_held() noexcept;

  sinew::parallel::Job& job() noexcept { return job_; }
  /// Null where there is one stage.
  const Pipelined* pipelined() const noexcept { return pipelined_.get(); }
  /// What this rank has of one kind of the model's parameters, who holds it and who updates it.
  struct Held {
    sinew::parallel::DataParallel* data;
    std::vector<ParameterInfo> infos;
    sinew::parallel::Optimizer optimizer;
  };
  /// Of dense parameters, then of experts where there are any.
  std::vector<Held>& held() noexcept { return held_; }
  Routers& routers() noexcept { return routers_; }

 private:
  ModelRanks ranks();
  std::vector<std::vector<sinew::parallel::OwnedPart>> finish_backward();
  /// The losses of this rank's part of the batch. Adds the scaled gradients of their sum.
  sinew::parallel::WeightedLoss passes(const std::vector<std::uint8_t>& sequences, std::int64_t step,
                                       std::int64_t first_sample, const GradientScale& gradients);
  /// The factor that undoes the scale of the gradients whose norm this is. {}: the step is skipped.
  std::optional<double> unscale(std::int64_t step, double norm);
  /// Of all ranks.
  sinew::parallel::WeightedLoss total_of(const sinew::parallel::WeightedLoss& part);

  const Options* options_;
  const Text* text_;
  sinew::parallel::Job job_;
  sinew::Communicator* all_;
  std::vector<Held> held_;
  Routers routers_;
  std::unique_ptr<Blas> blas_;
  Model model_;
  WaitingStore store_;
  std::unique_ptr<Pipelined> pipelined_;  // null: there is one stage
  std::optional<sinew::parallel::LossScaler> scaler_;
  std::int64_t steps_done_;
};

}  // namespace gpt
