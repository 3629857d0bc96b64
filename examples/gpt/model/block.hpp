#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <sinew/parallel/context/context_attention.hpp>
#include <sinew/parallel/job/job_config.hpp>
#include <sinew/parallel/tensor/dropout.hpp>

#include "../layers/experts.hpp"
#include "../layers/layer_norm.hpp"
#include "../layers/scan.hpp"
#include "activations.hpp"
#include "feedforward.hpp"
#include "mixer.hpp"
#include "token_places.hpp"

namespace gpt {

/// What a block keeps of its forward pass, [rows, ...]: its input and what comes of it on the way.
template <class T>
struct BlockActivations {
  std::span<T> in, normed1, mixer, middle, normed2, up, bent;
  std::span<T> mean1, factor1, mean2, factor2;
  std::shared_ptr<ExpertsKept<T>> experts{};  ///< of a block that has them; up and bent are empty then
};

/// What all blocks of a model share.
template <class T>
struct BlockSurroundings {
  sinew::Communicator& group;  ///< tensor-parallel
  Blas& blas;
  sinew::parallel::ContextAttention<T>* attention;  ///< null: no block has it
  ScanParts<T>* scan;                               ///< likewise
  ExpertsParts<T>* experts;                         ///< likewise
  const std::vector<sinew::parallel::AttentionMask>& masks;
  const TokenPlaces& places;
  const Pass& pass;          ///< the pass in flight
  const double& loss_scale;  ///< scale of the gradients of that pass
  std::uint64_t seed;
};

/// middle = in + drop(mixer(norm1(in))), out = middle + drop(feedforward(norm2(middle))).
template <class T>
class Block {
 public:
  /// Lifetime: ends before all that it shares.
  Block(const BlockShape& shape, int number, sinew::parallel::Recompute recompute,
        const BlockSurroundings<T>& surroundings);

  /// Activations of a block's own; what is computed again, or shares memory, comes from `shared`.
  static BlockActivations<T> kept(Activations& memory, const BlockShape& shape, int number,
                                  sinew::parallel::Recompute recompute, const BlockActivations<T>& shared);
  /// has_mlp: any block that they are for has no experts; has_experts: any has.
  static BlockActivations<T> all(Activations& memory, const BlockShape& shape, std::size_t mixer_elements, bool has_mlp,
                                 bool has_experts);
  /// Elements that the mixer of this block keeps.
  static std::size_t mixer_elements(const BlockShape& shape, int number);
  /// Elements of what its gradients of matrices are made of, where they are deferred.
  static std::int64_t deferred_elements(const BlockShape& shape, int number);
  /// Elements of the widest row inside a layer.
  static std::int64_t widest_row(const BlockShape& shape);

  void forward(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch, T* out);
  /// d: of the output, becomes that of the input.  Reports each gradient as it is complete.
  void backward(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch, T* d);

 private:
  void again(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch);
  /// Up to what goes into the feedforward part.
  void inner(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch);
  /// The gradient of what was dropped from: d itself where nothing is.
  const T* through(const sinew::parallel::Dropout& dropout, const BlockScratch<T>& scratch, const T* d) const;
  int own_rows() const { return static_cast<int>(shape_.own_rows()); }

  BlockShape shape_;
  sinew::parallel::Recompute recompute_;
  const TokenPlaces* places_;
  const Pass* pass_;
  sinew::parallel::Dropout drop1_, drop2_;
  LayerNorm<T> norm1_, norm2_;
  std::unique_ptr<Mixer<T>> mixer_;
  std::unique_ptr<Feedforward<T>> feedforward_;
};

extern template class Block<float>;
extern template class Block<double>;

}  // namespace gpt
