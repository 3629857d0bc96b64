#include "linear.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "../math/vector_math.hpp"

namespace gpt {

template <class T>
void Linear<T>::forward(Store& store, Weights<T>& weights, Blas& blas, int rows, const T* x, T* out) const {
  const auto width = static_cast<std::size_t>(outputs);
  std::vector<T> room(width);
  const T* offset = weights.vector(store, bias, room);
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) std::copy_n(offset, width, out + r * width);
  blas.multiply({.b_transposed = true, .m = rows, .n = outputs, .k = inputs, .la = inputs, .lb = inputs, .lc = outputs},
                T{1}, x, weights.matrix(store, weight), T{1}, out);
}

template <class T>
void Linear<T>::backward(Store& store, Weights<T>& weights, Blas& blas, int rows, const T* x, const T* dout,
                         T* dx) const {
  const auto width = static_cast<std::size_t>(outputs);
  weights.add_gradient(store, bias, width, [&](T* to, T beta) {
    if (beta == T{0}) std::fill_n(to, width, T{0});
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) add(to, dout + r * width, width);
  });
  store.gradient_ready(bias);
  weights.add_gradient(store, weight, width * static_cast<std::size_t>(inputs), [&](T* to, T beta) {
    blas.multiply(
        {.a_transposed = true, .m = outputs, .n = inputs, .k = rows, .la = outputs, .lb = inputs, .lc = inputs}, T{1},
        dout, x, beta, to);
  });
  store.gradient_ready(weight);
  blas.multiply({.m = rows, .n = inputs, .k = outputs, .la = outputs, .lb = inputs, .lc = inputs}, T{1}, dout,
                weights.matrix(store, weight), T{0}, dx);
}

template struct Linear<float>;
template struct Linear<double>;

}  // namespace gpt
