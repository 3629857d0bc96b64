#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/parallel/invariant/exact_sum.hpp>
#include <sinew/parallel/job/job_config.hpp>
#include <sinew/parallel/tensor/vocabulary_cross_entropy.hpp>

#include "../layers/experts.hpp"
#include "../math/blas.hpp"
#include "../parts.hpp"
#include "../shape.hpp"
#include "store.hpp"
#include "token_places.hpp"

namespace gpt {

class Network;

/// The ranks that share a model and its sequences; null: there is one. All of them make the same calls with the same
/// sequences.
struct ModelRanks {
  sinew::Communicator* tensor = nullptr;        ///< its layers
  bool sequence_parallel = false;               ///< these share rows between layers, too
  bool decomposed = false;                      ///< LinearShape::decomposed
  sinew::Communicator* head_sharers = nullptr;  ///< its sequences: ContextShape
  sinew::Communicator* ring = nullptr;
  sinew::Communicator* context = nullptr;  ///< head_sharers and ring together
  ExpertsRanks experts{};                  ///< routers null: the model has its own
  bool invariant = false;                  ///< sums do not show how many they are

  Part part() const;
};

/// A call of one stage of a model for one micro-batch. `slot`: the place in the stage's memory that the micro-batch
/// uses while it is in flight.
struct StageCall {
  int stage = 0;
  int slot = 0;
};

struct ModelOptions {
  sinew::parallel::Recompute recompute = sinew::parallel::Recompute::None;
  sinew::parallel::Precision precision{};
  std::uint64_t seed = 1;    ///< of dropout
  std::int64_t samples = 0;  ///< of this rank in a step: of models whose sums are invariant
  ExpertsWay experts{};
  sinew::Determinism determinism = sinew::Determinism::Fast;  ///< of sums of what experts computed
};

/// A GPT: token and position embeddings, blocks of causal attention and MLP behind layer norms, a last norm, and a head
/// that shares the token embeddings. It computes in f64 where parameters are f64, else in f32.
/// Source: Radford et al. (GPT-2); recomputation: Chen et al., arXiv 1604.06174, selective: Korthikanti et al., arXiv
///         2205.05198.
class Model {
 public:
  /// stages: those of a pipeline that this rank has; none: the whole model is one.
  /// Lifetime: blas and ranks outlive it. Errors: InvalidArgument as require_shape.
  Model(const Shape& shape, const ModelOptions& options, Blas& blas, const ModelRanks& ranks = {},
        std::vector<StagePart> stages = {});
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// Sum of the losses of the bytes that this rank predicts, in nats, and their number.
  /// Shape: `count` sequences of context + 1 bytes, one after the other; all but a sequence's first are predicted, and
  ///        what begins a document.
  sinew::parallel::TokenLoss forward(Store& store, std::span<const std::uint8_t> sequences, int count,
                                     const Pass& pass = {});
  /// Adds `scale` times the gradient of that sum to what the store's gradients hold. Once after each forward.
  void backward(Store& store, double scale);

  /// The same of one stage. in, out: boundary_bytes() of the stage before, and for the one behind; empty where there is
  /// none. What it predicts is nothing where another stage has the head.
  sinew::parallel::TokenLoss forward(Store& store, const StageCall& call, std::span<const std::uint8_t> sequences,
                                     int count, const Pass& pass, sinew::ConstBuffer in, sinew::Buffer out);
  void backward(Store& store, const StageCall& call, double scale, sinew::ConstBuffer dout, sinew::Buffer din);

  /// backward() in two parts, of stages that defer: gradients of inputs and vectors first, those of matrices later.
  void backward_input(Store& store, const StageCall& call, double scale, sinew::ConstBuffer dout, sinew::Buffer din);
  void backward_weights(const StageCall& call);

  /// Those of its own, which count where ModelRanks has none.
  Routers& routers() noexcept { return routers_; }

  /// Of models whose sums are invariant: the losses of all positions that were predicted, for whoever asks to clear;
  /// null of others.
  sinew::parallel::ExactSum* exact_losses();
  /// Likewise, of a pipeline whose ends are on two ranks: gradients of the token embeddings that the head gives, of
  /// each sample. Where that is asked for the last stage keeps them, and the first one adds them to its own.
  sinew::Buffer head_gradients(std::int64_t elements);
  void add_head_gradients(Store& store);

  /// Held for activations now, and for sums.
  std::size_t held_bytes() const noexcept;
  /// What that will be for so many sequences at once.
  static std::size_t activation_bytes(const Shape& shape, const Part& part, const ModelOptions& options, int sequences,
                                      std::vector<StagePart> stages = {});
  /// Of what goes from stage to stage.
  static std::size_t boundary_bytes(const Shape& shape, const Part& part, const ModelOptions& options, int sequences);

 private:
  sinew::Communicator alone_;
  Routers routers_;
  std::unique_ptr<Network> network_;
};

}  // namespace gpt
