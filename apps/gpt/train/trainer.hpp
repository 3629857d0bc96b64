#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/compute/blas.hpp>
#include <sinew/parallel/compute/opened_device.hpp>
#include <sinew/parallel/data_parallel/weighted_loss.hpp>
#include <sinew/parallel/expert/router_states.hpp>
#include <sinew/parallel/job/job.hpp>
#include <sinew/parallel/optim/loss_scaler.hpp>
#include <sinew/parallel/optim/optimizer.hpp>

#include "../text/text.hpp"
#include "engine.hpp"
#include "metrics.hpp"
#include "options.hpp"

namespace gpt {

/// The products of matrices on the host that the options ask for.
std::unique_ptr<sp::Blas> blas_of(const Options& options);

/// The place where a model is, and what multiplies matrices there.
class ModelPlace {
 public:
  /// As the options say. On a device the ranks of a host take its devices in turn.
  /// Errors: as sp::OpenedDevice, sp::make_cublas and sp::HostBlas.
  ModelPlace(const sinew::World& world, const Options& options);
  /// The place of this blas.
  explicit ModelPlace(std::unique_ptr<sp::Blas> blas) : blas_(std::move(blas)) {}

  sp::Blas& blas() const noexcept { return *blas_; }
  sp::ComputeDevice device() const { return blas_->device(); }

 private:
  std::unique_ptr<sp::OpenedDevice> opened_;
  std::unique_ptr<sp::Blas> blas_;
};

/// Trains: batches of the text through the model, on all ranks together.
/// Thread:   the World's.
/// Lifetime: ends before World and text.
class Trainer {
 public:
  /// Errors: as ModelPlace and Job.
  Trainer(sinew::World& world, const Options& options, const Text& text)
      : Trainer(world, options, text, ModelPlace(world, options)) {}
  Trainer(sinew::World& world, const Options& options, const Text& text, ModelPlace place);

  /// Sees what this rank owns, with the scaled gradients of the sum of the losses, before it is updated. scale makes
  /// them those of the mean. It does not see steps that are skipped. It is called for dense parameters first, then for
  /// those of experts if there are any.
  using Watcher = std::function<void(const sp::DataParallel&, std::span<const sp::OwnedPart>, double scale)>;

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
                     const std::optional<sp::LossScaleState>& scaling = {});
  /// {}: the loss is not scaled.
  std::optional<sp::LossScaleState> scaling() const;

  /// The most bytes that this rank has held: parameters, gradients, optimizer state, exchanges in flight, activations.
  std::size_t most_held() noexcept;
  /// Lists what the optimizer of exchanges did to the graphs of a step, with bytes and seconds.
  std::string explain() { return job_.explain() + engine_->explain(); }

  sp::Job& job() noexcept { return job_; }
  sp::ComputeDevice device() const { return place_.device(); }
  /// Parameters of one kind, and their optimizer.
  struct Held {
    sp::DataParallel* data;
    sp::Optimizer optimizer;
  };
  /// Of dense parameters, then of experts where there are any.
  std::vector<Held>& held() noexcept { return held_; }
  /// By layer with experts: RouterStates counts only those.
  sp::RouterStates& routers() noexcept { return routers_; }

 private:
  std::vector<std::vector<sp::OwnedPart>> finish_backward();
  /// The factor that undoes the scale of the gradients whose norm this is. {}: the step is skipped.
  std::optional<double> unscale(std::int64_t step, double norm);
  /// Of all ranks.
  sp::WeightedLoss total_of(const sp::WeightedLoss& part);

  const Options* options_;
  const Text* text_;
  ModelPlace place_;
  sp::Job job_;
  sinew::Communicator* all_;
  std::vector<Held> held_;
  sp::RouterStates routers_;
  std::unique_ptr<Engine> engine_;
  std::optional<sp::LossScaler> scaler_;
  std::int64_t steps_done_;
};

}  // namespace gpt
