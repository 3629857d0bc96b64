#pragma once

#include <span>

#include <sinew/parallel/job/job_config.hpp>

#include "../layers/attention.hpp"
#include "../layers/layer_norm.hpp"
#include "../layers/linear.hpp"
#include "../parts.hpp"
#include "activations.hpp"

namespace gpt {

/// What this rank has of a model, for so many sequences at once.
struct BlockShape {
  Shape whole;
  Part part;
  int sequences = 0;

  std::int64_t rows() const noexcept { return std::int64_t{sequences} * whole.context; }
  /// Between layers.
  std::int64_t own_rows() const noexcept { return part.rows(rows()).count(); }
  /// A linear layer of the whole model.
  sinew::parallel::LinearShape linear(std::string name, std::int64_t inputs, std::int64_t outputs) const {
    return {std::move(name), rows(), inputs, outputs, {}, part.sequence_parallel, {}};
  }
};

/// What a block keeps of its forward pass, [rows, ...]: its input and what comes of it on the way.
template <class T>
struct BlockActivations {
  std::span<T> in, normed1, qkv, weights, mixed, middle, normed2, up, bent;
  std::span<T> mean1, factor1, mean2, factor2;
};

/// Room for what passes use and do not keep.
template <class T>
struct BlockScratch {
  std::span<T> rows;             ///< [own rows, width]
  std::span<T> wide;             ///< [rows, queries, keys and values, or the MLP's inner elements]
  std::span<T> square;           ///< [context, context]
  std::span<T> gathered, other;  ///< [rows, width], where rows are cut between layers
};

/// middle = in + out(attention(qkv(norm1(in)))), out = middle + down(gelu(up(norm2(middle)))).
template <class T>
class Block {
 public:
  /// Lifetime: ends before group and blas.
  Block(const BlockShape& shape, int number, sinew::parallel::Recompute recompute, sinew::Communicator& group,
        Blas& blas);

  /// Activations of its own; what is computed again, or shares memory, comes from `shared`.
  BlockActivations<T> kept(Activations& memory, const BlockActivations<T>& shared) const;
  static BlockActivations<T> all(Activations& memory, const BlockShape& shape);

  void forward(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch, T* out);
  /// d: of the output, becomes that of the input.  Reports each gradient as it is complete.
  void backward(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch, T* d);

 private:
  void again(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch);
  /// Up to the last linear layer, which nothing of the backward pass needs.
  void inner(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch);
  int own_rows() const noexcept { return static_cast<int>(shape_.own_rows()); }

  BlockShape shape_;
  sinew::parallel::Recompute recompute_;
  Blas* blas_;
  LayerNorm<T> norm1_, norm2_;
  Attention<T> attention_;
  Columns<T> qkv_, up_;
  RowsOf<T> out_, down_;
};

extern template class Block<float>;
extern template class Block<double>;

}  // namespace gpt
