#include <cstdint>

#include <sinew/parallel/compute/layer_math.hpp>
#include <sinew/parallel/modules/layers/pointwise.hpp>

namespace sinew::parallel {
namespace {

template <class T>
PointwiseFunction<T> of_kernel(kernels::Function f) {
  return {
      [f](const T* x, T* y, std::size_t n) { host_math<T>()->apply(f, x, y, static_cast<std::int64_t>(n)); },
      [f](const T* x, T* dy, std::size_t n) { host_math<T>()->apply_slope(f, x, dy, static_cast<std::int64_t>(n)); },
      f};
}

}  // namespace

template <class T>
PointwiseFunction<T> gelu() {
  return of_kernel<T>(kernels::Function::Gelu);
}

template <class T>
PointwiseFunction<T> relu() {
  return of_kernel<T>(kernels::Function::Relu);
}

template <class T>
PointwiseFunction<T> hyperbolic_tangent() {
  return of_kernel<T>(kernels::Function::Tanh);
}

template PointwiseFunction<float> gelu();
template PointwiseFunction<double> gelu();
template PointwiseFunction<float> relu();
template PointwiseFunction<double> relu();
template PointwiseFunction<float> hyperbolic_tangent();
template PointwiseFunction<double> hyperbolic_tangent();

}  // namespace sinew::parallel
