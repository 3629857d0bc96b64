#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/parallel/expert/balance_loss.hpp>
#include <sinew/parallel/expert/capacity.hpp>
#include <sinew/parallel/expert/dispatcher.hpp>
#include <sinew/parallel/expert/router.hpp>
#include <sinew/parallel/job/job_config.hpp>

#include "../math/blas.hpp"
#include "../model/block_shape.hpp"
#include "../model/routers.hpp"
#include "../model/store.hpp"
#include "../model/token_places.hpp"
#include "replicated.hpp"
#include "weights.hpp"

namespace gpt {

/// How tokens get to experts: nothing that is computed depends on it.
struct ExpertsWay {
  sinew::parallel::DispatchKind kind = sinew::parallel::DispatchKind::AllToAll;
  int chunks = 1;
};

/// Who takes part in routing, beside the ranks that share layers.
struct ExpertsRanks {
  sinew::parallel::ExpertRanks experts{};
  sinew::Communicator* sequences = nullptr;  ///< those with tokens of the same sequences
  Routers* routers = nullptr;
};

/// Rows of this rank's experts, [rows, ...], as many as came.
template <class T>
struct ExpertsRows {
  std::vector<T> in, up, bent;
  std::size_t most = 0;  ///< elements that they held at most

  void resize(std::int64_t rows, std::int64_t width, std::int64_t inner) {
    in.resize(static_cast<std::size_t>(rows * width));
    for (std::vector<T>* of : {&up, &bent}) of->resize(static_cast<std::size_t>(rows * inner));
    most = std::max(most, in.size() + up.size() + bent.size());
  }
};

/// What a block with experts keeps of its forward pass. Where activations are computed again blocks share the rows.
template <class T>
struct ExpertsKept {
  sinew::parallel::Routed<T> routed;
  std::unique_ptr<sinew::parallel::Dispatch<T>> way;
  std::vector<double> pull;
  std::shared_ptr<ExpertsRows<T>> rows = std::make_shared<ExpertsRows<T>>();
};

/// What all blocks of a stage share of it: who dispatches, and what is counted by sequences.
template <class T>
struct ExpertsParts {
  ExpertsParts(const BlockShape& shape, const ExpertsRanks& ranks, const ExpertsWay& way, const TokenPlaces& places,
               sinew::Determinism determinism);

  std::size_t held_bytes() const noexcept {
    return dispatcher->held_bytes() + (scratch.capacity() + d.capacity() + dup.capacity()) * sizeof(T);
  }

  static sinew::parallel::RouterShape router_shape(const Shape& shape, int block);

  sinew::parallel::TokenPositions where;
  std::unique_ptr<sinew::parallel::Dispatcher<T>> dispatcher;
  sinew::parallel::BalanceLoss<T> balance;
  sinew::parallel::CapacityLimit<T> capacity;
  Routers* routers;
  bool counts_sequences;   // what all ranks of a sequence know this one adds to totals
  std::vector<T> scratch;  // rows on their way
  std::vector<T> d, dup;   // gradients of rows, of what comes out of both layers; gone where they are deferred
};

/// A router, experts in the place of an MLP, and what their tokens' sums become.
template <class T>
class Experts {
 public:
  /// Lifetime: ends before all of these.
  Experts(const BlockShape& shape, int number, sinew::parallel::Recompute recompute, Blas& blas, ExpertsParts<T>& parts,
          Replicated<T> replicated);

  /// x, out [own rows, width].
  void forward(Store& store, Weights<T>& weights, const T* x, ExpertsKept<T>& kept, T* out);
  /// Where activations are computed again: the rows, by the way that forward has found.
  void again(Store& store, Weights<T>& weights, const T* x, ExpertsKept<T>& kept);
  /// d: of out; dx is written, gradients are added and reported. scale: of the losses that the router makes itself.
  void backward(Store& store, Weights<T>& weights, const T* x, ExpertsKept<T>& kept, const T* d, double scale, T* dx);

  /// Elements that the rows of a block take where all experts are equally loaded.
  static std::size_t rows_for(const BlockShape& shape);
  /// The same of what is on its way.
  static std::size_t scratch_for(const BlockShape& shape);

 private:
  struct Gradients;  // what those of weights are made of

  /// f(expert of this rank, its rows) of those of a chunk, or of all.
  template <class F>
  static void for_each_expert(const sinew::parallel::Dispatch<T>& way, const sinew::parallel::Rows& experts,
                              const F& f);
  void route(Store& store, Weights<T>& weights, const T* x, ExpertsKept<T>& kept);
  void receive(Store& store, Weights<T>& weights, ExpertsKept<T>& kept, std::size_t chunk);
  void bend(ExpertsKept<T>& kept, const sinew::parallel::Rows& rows) const;
  /// What the rows of a chunk come to, with their gates, into the scratch.
  void finish(Store& store, Weights<T>& weights, const ExpertsKept<T>& kept, std::size_t chunk);
  void report(Store& store, Weights<T>& weights, const Gradients& of);
  void router_backward(Store& store, Weights<T>& weights, const T* x, ExpertsKept<T>& kept,
                       const std::vector<T>& dgates, double scale, T* dx);
  bool adds_bias() const noexcept { return shape_.part.expert_tensor_rank == 0; }
  std::int64_t inner() const noexcept { return shape_.part.of_expert(shape_.whole).count(); }

  BlockShape shape_;
  int number_, first_;  // block, parameter
  sinew::parallel::Recompute recompute_;
  Blas* blas_;
  ExpertsParts<T>* parts_;
  Replicated<T> replicated_;
  sinew::parallel::Router<T> router_;
};

extern template struct ExpertsParts<float>;
extern template struct ExpertsParts<double>;
extern template class Experts<float>;
extern template class Experts<double>;

}  // namespace gpt
