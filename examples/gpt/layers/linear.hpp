#pragma once

#include "../math/blas.hpp"
#include "../model/store.hpp"
#include "weights.hpp"

namespace gpt {

/// out = x * weight^T + bias. Shape: x [rows, inputs], weight [outputs, inputs], out [rows, outputs].
template <class T>
struct Linear {
  int weight, bias;  ///< parameters
  int inputs, outputs;

  void forward(Store& store, Weights<T>& weights, Blas& blas, int rows, const T* x, T* out) const;
  /// Adds the gradients and reports them. dx = dout * weight.
  void backward(Store& store, Weights<T>& weights, Blas& blas, int rows, const T* x, const T* dout, T* dx) const;
};

extern template struct Linear<float>;
extern template struct Linear<double>;

}  // namespace gpt
