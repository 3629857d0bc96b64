#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sinew/parallel/compute/blas.hpp>
#include <sinew/parallel/data_parallel/weighted_loss.hpp>
#include <sinew/parallel/expert/router_states.hpp>
#include <sinew/parallel/invariant/exact_sum.hpp>
#include <sinew/parallel/job/job.hpp>

#include "options.hpp"

namespace gpt {

/// The samples that this rank computes with in a step.
struct StepSamples {
  std::vector<std::uint8_t> sequences;  ///< each of context + 1 bytes, one after the other
  std::int64_t step = 0;
  std::int64_t first = 0;  ///< the number of the first sample in the global batch
};

/// The changes that a step makes to its gradients before they are summed.
struct GradientScale {
  double scale = 1;        ///< multiplies the loss
  bool overflows = false;  ///< one gradient of this rank becomes infinite before it is summed
};

/// This rank's part of a model, and its passes over the samples of a step. It computes in f64 if parameters are f64,
/// else in f32.
/// Thread: the World's.
class Engine {
 public:
  virtual ~Engine() = default;

  /// Adds the scaled gradients of the sum of the losses. Returns the losses that this rank's modules have. Afterwards
  /// finish_backward() of the job's data parallelism is due.
  virtual sp::WeightedLoss step(const StepSamples& samples, const GradientScale& gradients) = 0;
  /// The losses of all positions of the last step, if sums are layout-invariant; otherwise null.
  virtual sp::ExactSum* exact_losses() = 0;
  /// Seconds in which the model waited for other ranks since the last call, because nothing hid that.
  virtual double take_waited_s() = 0;
  /// Bytes of activations, and of whatever else passes use.
  virtual std::size_t held_bytes() const = 0;
  /// Lists what the optimizer of exchanges did to the graph of a pipeline. Empty without one.
  virtual std::string explain() const = 0;
};

/// Lifetime: ends before job, routers and blas. options are those of the job.
std::unique_ptr<Engine> make_engine(sp::Job& job, const Options& options, sp::RouterStates& routers, sp::Blas& blas);

}  // namespace gpt
