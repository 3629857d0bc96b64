#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/parallel/context/context_attention.hpp>

#include "../math/blas.hpp"
#include "../model/mixer.hpp"
#include "linear.hpp"

namespace gpt {

/// Attention itself, of the heads and positions that this rank has: as all blocks of a model have it.
sinew::parallel::ContextShape attention_shape(const BlockShape& shape);

/// Queries, keys and values, attention, and the layer behind it.
template <class T>
class AttentionMixer final : public Mixer<T> {
 public:
  /// Lifetime: ends before all of these.
  AttentionMixer(const BlockShape& shape, int number, sinew::Communicator& group, Blas& blas,
                 sinew::parallel::ContextAttention<T>& attention,
                 const std::vector<sinew::parallel::AttentionMask>& masks);

  void forward(Store& store, Weights<T>& weights, const T* x, std::span<T> kept, const BlockScratch<T>& scratch,
               T* out) override;
  void backward(Store& store, Weights<T>& weights, const T* x, std::span<T> kept, const T* d,
                const BlockScratch<T>& scratch) override;
  std::size_t kept_elements() const override { return kept_for(shape_); }

  static std::size_t kept_for(const BlockShape& shape);
  /// Elements of a row of queries, keys and values.
  static std::int64_t row_of(const BlockShape& shape);
  /// Elements of what gradients are made of that are deferred.
  static std::int64_t deferred_for(const BlockShape& shape) {
    return shape.rows() * (row_of(shape) + shape.whole.width);
  }

 private:
  struct Kept {
    T *qkv, *mixed, *inside;
  };
  Kept of(std::span<T> kept) const;
  template <class U>
  sinew::parallel::Projections<U> projections(U* qkv) const noexcept;

  BlockShape shape_;
  int first_;  // parameter
  sinew::parallel::AttentionHeads heads_;
  sinew::parallel::ContextAttention<T>* attention_;
  const std::vector<sinew::parallel::AttentionMask>* masks_;
  Columns<T> qkv_;
  RowsOf<T> out_;
};

extern template class AttentionMixer<float>;
extern template class AttentionMixer<double>;

}  // namespace gpt
