#include <cmath>

#include <sinew/parallel/modules/layers/pointwise.hpp>
#include <sinew/parallel/modules/vector_kernels.hpp>

namespace sinew::parallel {

template <class T>
PointwiseFunction<T> gelu() {
  return {[](const T* x, T* y, std::size_t n) { kernels::gelu(x, y, n); },
          [](const T* x, T* dy, std::size_t n) { kernels::gelu_backward(x, dy, n); }};
}

template <class T>
PointwiseFunction<T> relu() {
  return {[](const T* x, T* y, std::size_t n) {
            for (std::size_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : T{0};
          },
          [](const T* x, T* dy, std::size_t n) {
            for (std::size_t i = 0; i < n; ++i) dy[i] = x[i] > 0 ? dy[i] : T{0};
          }};
}

template <class T>
PointwiseFunction<T> hyperbolic_tangent() {
  return {[](const T* x, T* y, std::size_t n) {
            for (std::size_t i = 0; i < n; ++i) y[i] = std::tanh(x[i]);
          },
          [](const T* x, T* dy, std::size_t n) {
            for (std::size_t i = 0; i < n; ++i) {
              const T y = std::tanh(x[i]);
              dy[i] *= 1 - y * y;
            }
          }};
}

template PointwiseFunction<float> gelu();
template PointwiseFunction<double> gelu();
template PointwiseFunction<float> relu();
template PointwiseFunction<double> relu();
template PointwiseFunction<float> hyperbolic_tangent();
template PointwiseFunction<double> hyperbolic_tangent();

}  // namespace sinew::parallel
