#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <sinew/collectives/communicator.hpp>
#include <sinew/parallel/job/job_config.hpp>

#include "../math/blas.hpp"
#include "../parts.hpp"
#include "../shape.hpp"
#include "store.hpp"

namespace gpt {

class Network;

/// A GPT: token and position embeddings, blocks of causal attention and MLP behind layer norms, a last norm, and a head
/// that shares the token embeddings. It computes in f64 where parameters are f64, else in f32.
/// Source: Radford et al. (GPT-2); recomputation: Chen et al., arXiv 1604.06174, selective: Korthikanti et al., arXiv
///         2205.05198.
class Model {
 public:
  /// group: of the tensor-parallel ranks that share its layers; null: there is one. Its ranks make the same calls with
  /// the same sequences. sequence_parallel: they share rows between layers, too.
  /// Lifetime: blas and group outlive it. Errors: InvalidArgument as require_shape.
  Model(const Shape& shape, sinew::parallel::Recompute recompute, const sinew::parallel::Precision& precision,
        Blas& blas, sinew::Communicator* group = nullptr, bool sequence_parallel = false);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// Sum of the losses of all predicted bytes, in nats.
  /// Shape: `count` sequences of context + 1 bytes, one after the other; all but a sequence's first are predicted.
  double forward(Store& store, std::span<const std::uint8_t> sequences, int count);
  /// Adds `scale` times the gradient of that sum to what the store's gradients hold. Once after each forward.
  void backward(Store& store, double scale);

  /// Held for activations now.
  std::size_t held_bytes() const noexcept;
  /// What that will be for so many sequences at once.
  static std::size_t activation_bytes(const Shape& shape, const Part& part, sinew::parallel::Recompute recompute,
                                      const sinew::parallel::Precision& precision, int sequences);

 private:
  sinew::Communicator alone_;
  std::unique_ptr<Network> network_;
};

}  // namespace gpt
