#pragma once

#include "../model/store.hpp"
#include "replicated.hpp"
#include "weights.hpp"

namespace gpt {

/// Rows of mean 0 and variance 1, times weight, plus bias.
/// Shape:  x, out [rows, width]; mean and factor (1 / deviation) [rows].
/// Source: Ba et al., arXiv 1607.06450; epsilon as in GPT-2.
template <class T>
struct LayerNorm {
  int weight, bias;  ///< parameters
  int width;
  Replicated<T> replicated{};

  void forward(Store& store, Weights<T>& weights, int rows, const T* x, T* mean, T* factor, T* out) const;
  /// out again, of what forward found.
  void again(Store& store, Weights<T>& weights, int rows, const T* x, const T* mean, const T* factor, T* out) const;
  /// Adds the gradients and reports them; adds to dx.
  void backward(Store& store, Weights<T>& weights, int rows, const T* x, const T* mean, const T* factor, const T* dout,
                T* dx) const;
};

extern template struct LayerNorm<float>;
extern template struct LayerNorm<double>;

}  // namespace gpt
