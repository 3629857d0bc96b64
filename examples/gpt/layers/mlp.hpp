#pragma once

#include <sinew/parallel/job/job_config.hpp>

#include "../model/block.hpp"
#include "linear.hpp"

namespace gpt {

/// down(gelu(up(x))), inner elements cut over tensor-parallel ranks.
template <class T>
class Mlp final : public Feedforward<T> {
 public:
  Mlp(const BlockShape& shape, int number, sinew::parallel::Recompute recompute, sinew::Communicator& group, Blas& blas,
      Replicated<T> replicated);

  void forward(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch,
               T* out) override;
  void again(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch) override;
  void backward(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch,
                const T* d) override;

 private:
  /// Up to the last linear layer, which nothing of the backward pass needs.
  void inner(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch);

  void bend(const BlockActivations<T>& a) const;

  sinew::parallel::Recompute recompute_;
  bool invariant_;
  Columns<T> up_;
  RowsOf<T> down_;
};

extern template class Mlp<float>;
extern template class Mlp<double>;

}  // namespace gpt
