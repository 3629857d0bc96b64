#pragma once

#include "../math/blas.hpp"
#include "../shape.hpp"

namespace gpt {

/// Causal attention of several heads, without its linear layers.
/// Shape: qkv [sequences * context, 3 * width], a row's queries, keys, values, each head by head; out [.., width];
///        weights [sequences, heads, context, context], of each position those of the ones before it and itself.
template <class T>
struct Attention {
  Shape shape;

  void forward(Blas& blas, int sequences, const T* qkv, T* weights, T* out) const;
  /// The weights alone, as forward makes them.
  void again(Blas& blas, int sequences, const T* qkv, T* weights) const;
  /// `room`: [context, context].
  void backward(Blas& blas, int sequences, const T* qkv, const T* weights, const T* dout, T* room, T* dqkv) const;
};

extern template struct Attention<float>;
extern template struct Attention<double>;

}  // namespace gpt
