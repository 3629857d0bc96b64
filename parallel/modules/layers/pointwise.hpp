#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/modules/module.hpp>

namespace sinew::parallel {

/// A function of each element. forward writes y = f(x). backward multiplies dy by the slope of f at x.
/// Shape: n elements each, in host memory.
template <class T>
struct PointwiseFunction {
  std::function<void(const T* x, T* y, std::size_t n)> forward{};
  std::function<void(const T* x, T* dy, std::size_t n)> backward{};
  /// The kernel that computes the function on a device. {}: there is none, so it is computed on the host only.
  std::optional<kernels::Function> kernel{};
};

/// Source of gelu: Hendrycks and Gimpel, arXiv 1606.08415, in the form with tanh that GPT-2 has.
template <class T>
SINEW_API PointwiseFunction<T> gelu();
template <class T>
SINEW_API PointwiseFunction<T> relu();
template <class T>
SINEW_API PointwiseFunction<T> hyperbolic_tangent();

/// The same function in runs of one length, the last one filled up. The result of an element then does not depend on
/// how many elements a rank has, as layout-invariant sums need it. Vector instructions may compute the last few
/// elements of an array otherwise than the others.
/// Cost: a copy of up to 256 elements.
template <class T>
PointwiseFunction<T> in_equal_runs(PointwiseFunction<T> function) {
  const auto evenly = [](const auto& f, const T* x, T* y, std::size_t n) {
    constexpr std::size_t kRun = 256;
    const std::size_t whole = n / kRun * kRun;
    if (whole > 0) f(x, y, whole);
    if (whole == n) return;
    std::array<T, kRun> in{}, out{};
    std::copy(x + whole, x + n, in.begin());
    std::copy(y + whole, y + n, out.begin());
    f(in.data(), out.data(), kRun);
    std::copy_n(out.begin(), n - whole, y + whole);
  };
  return {[=, f = function.forward](const T* x, T* y, std::size_t n) { evenly(f, x, y, n); },
          [=, f = function.backward](const T* x, T* dy, std::size_t n) { evenly(f, x, dy, n); },
          {}};
}

extern template PointwiseFunction<float> gelu();
extern template PointwiseFunction<double> gelu();
extern template PointwiseFunction<float> relu();
extern template PointwiseFunction<double> relu();
extern template PointwiseFunction<float> hyperbolic_tangent();
extern template PointwiseFunction<double> hyperbolic_tangent();

/// Applies a function to each element. It has no parameters and sends nothing.
template <class T>
class Pointwise final : public Module<T> {
 public:
  Pointwise(std::int64_t elements, PointwiseFunction<T> function)
      : elements_(elements), function_(std::move(function)) {}

  std::int64_t in_elements() const override { return elements_; }
  std::int64_t out_elements() const override { return elements_; }
  bool can_remake() const override { return true; }
  bool runs_on_devices() const override { return function_.kernel.has_value(); }
  void declare(ParameterList& /*list*/) override {}
  void forward(Pass<T>& pass, const T* x, Kept<T>& /*kept*/, T* out) override {
    if (pass.device().exists()) return pass.math().apply(function_.kernel.value(), x, out, elements_);
    function_.forward(x, out, static_cast<std::size_t>(elements_));
  }
  void input_gradient(Pass<T>& pass, const T* x, Kept<T>& /*kept*/, const T* dout, T* dx) override {
    if (dx == nullptr) return;
    pass.math().copy(dout, dx, elements_);
    if (pass.device().exists()) return pass.math().apply_slope(function_.kernel.value(), x, dx, elements_);
    function_.backward(x, dx, static_cast<std::size_t>(elements_));
  }
  void weight_gradient(Pass<T>& /*pass*/, const T* /*x*/, Kept<T>& /*kept*/, const T* /*dout*/) override {}

 private:
  std::int64_t elements_;
  PointwiseFunction<T> function_;
};

}  // namespace sinew::parallel
