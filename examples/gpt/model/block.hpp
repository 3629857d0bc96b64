#pragma once

#include <span>

#include <sinew/parallel/job/job_config.hpp>

#include "../layers/attention.hpp"
#include "../layers/layer_norm.hpp"
#include "../layers/linear.hpp"
#include "activations.hpp"

namespace gpt {

/// What a block keeps of its forward pass, [rows, ...]: its input and what comes of it on the way.
template <class T>
struct BlockActivations {
  std::span<T> in, normed1, qkv, weights, mixed, middle, normed2, up, bent;
  std::span<T> mean1, factor1, mean2, factor2;
};

/// Room for what passes use and do not keep.
template <class T>
struct BlockScratch {
  std::span<T> rows;    ///< [rows, width]
  std::span<T> wide;    ///< [rows, 4 width]
  std::span<T> square;  ///< [context, context]
};

/// middle = in + out(attention(qkv(norm1(in)))), out = middle + down(gelu(up(norm2(middle)))).
template <class T>
class Block {
 public:
  Block(const Shape& shape, int number, sinew::parallel::Recompute recompute);

  /// Activations of its own for so many sequences; what is computed again, or shares memory, comes from `shared`.
  BlockActivations<T> kept(Activations& memory, int sequences, const BlockActivations<T>& shared) const;
  static BlockActivations<T> all(Activations& memory, const Shape& shape, int sequences);

  void forward(Store& store, Weights<T>& weights, Blas& blas, int sequences, const BlockActivations<T>& a,
               T* out) const;
  /// d: of the output, becomes that of the input.  Reports each gradient as it is complete.
  void backward(Store& store, Weights<T>& weights, Blas& blas, int sequences, const BlockActivations<T>& a,
                const BlockScratch<T>& scratch, T* d) const;

 private:
  void again(Store& store, Weights<T>& weights, Blas& blas, int sequences, const BlockActivations<T>& a) const;
  /// Up to the last linear layer, which nothing of the backward pass needs.
  void inner(Store& store, Weights<T>& weights, Blas& blas, int sequences, const BlockActivations<T>& a) const;

  Shape shape_;
  sinew::parallel::Recompute recompute_;
  LayerNorm<T> norm1_, norm2_;
  Attention<T> attention_;
  Linear<T> qkv_, out_, up_, down_;
};

extern template class Block<float>;
extern template class Block<double>;

}  // namespace gpt
