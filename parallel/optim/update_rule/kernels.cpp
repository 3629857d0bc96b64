#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sinew/parallel/optim/update_rule/kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <sinew/parallel/optim/update_rule/kernels.hpp>

HWY_BEFORE_NAMESPACE();
namespace sinew::parallel {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// f(lanes, index) for whole vectors, then for the elements that are left, one lane each.
template <class T, class F>
HWY_INLINE void sweep(std::size_t count, const F& f) {
  const hn::ScalableTag<T> wide;
  const std::size_t lanes = hn::Lanes(wide);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) f(wide, i);
  for (; i < count; ++i) f(hn::CappedTag<T, 1>(), i);
}

/// Rounded twice on every CPU, also on those that could do it at once: copies of a parameter must stay copies.
template <class V>
HWY_INLINE V mul_add(V a, V b, V c) {
  return hn::Add(hn::Mul(a, b), c);
}

template <class T>
void adam_of(T* value, const T* gradient, T* mean, T* square, std::size_t count, const AdamStep& s) {
  sweep<T>(count, [&](auto d, std::size_t i) HWY_ATTR {
    const auto c = [&](double x) HWY_ATTR { return hn::Set(d, static_cast<T>(x)); };
    const auto x = hn::LoadU(d, value + i);
    const auto g = mul_add(x, c(s.decay), hn::Mul(hn::LoadU(d, gradient + i), c(s.scale)));
    const auto m = mul_add(hn::LoadU(d, mean + i), c(s.beta1), hn::Mul(g, c(1 - s.beta1)));
    const auto v = mul_add(hn::LoadU(d, square + i), c(s.beta2), hn::Mul(hn::Mul(g, g), c(1 - s.beta2)));
    const auto root = mul_add(hn::Sqrt(v), c(s.root_scale), c(s.epsilon));
    hn::StoreU(m, d, mean + i);
    hn::StoreU(v, d, square + i);
    hn::StoreU(hn::Sub(hn::Mul(x, c(s.keep)), hn::Div(hn::Mul(m, c(s.rate)), root)), d, value + i);
  });
}

template <class T>
void sgd_of(T* value, const T* gradient, T* velocity, std::size_t count, const SgdStep& s) {
  sweep<T>(count, [&](auto d, std::size_t i) HWY_ATTR {
    const auto c = [&](double x) HWY_ATTR { return hn::Set(d, static_cast<T>(x)); };
    const auto x = hn::LoadU(d, value + i);
    const auto g = mul_add(x, c(s.decay), hn::Mul(hn::LoadU(d, gradient + i), c(s.scale)));
    auto step = g;
    if (velocity != nullptr) {
      const auto v = s.first ? g : mul_add(hn::LoadU(d, velocity + i), c(s.momentum), g);
      hn::StoreU(v, d, velocity + i);
      step = s.nesterov ? mul_add(v, c(s.momentum), g) : v;
    }
    hn::StoreU(hn::Sub(x, hn::Mul(step, c(s.rate))), d, value + i);
  });
}

void adam_f32(float* value, const float* gradient, float* mean, float* square, std::size_t count, const AdamStep& s) {
  adam_of(value, gradient, mean, square, count, s);
}
void adam_f64(double* value, const double* gradient, double* mean, double* square, std::size_t count,
              const AdamStep& s) {
  adam_of(value, gradient, mean, square, count, s);
}
void sgd_f32(float* value, const float* gradient, float* velocity, std::size_t count, const SgdStep& s) {
  sgd_of(value, gradient, velocity, count, s);
}
void sgd_f64(double* value, const double* gradient, double* velocity, std::size_t count, const SgdStep& s) {
  sgd_of(value, gradient, velocity, count, s);
}

}  // namespace HWY_NAMESPACE
}  // namespace sinew::parallel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinew::parallel {

HWY_EXPORT(adam_f32);
HWY_EXPORT(adam_f64);
HWY_EXPORT(sgd_f32);
HWY_EXPORT(sgd_f64);

template <>
void adam(float* value, const float* gradient, float* mean, float* square, std::size_t count, const AdamStep& step) {
  HWY_DYNAMIC_DISPATCH(adam_f32)(value, gradient, mean, square, count, step);
}
template <>
void adam(double* value, const double* gradient, double* mean, double* square, std::size_t count,
          const AdamStep& step) {
  HWY_DYNAMIC_DISPATCH(adam_f64)(value, gradient, mean, square, count, step);
}
template <>
void sgd(float* value, const float* gradient, float* velocity, std::size_t count, const SgdStep& step) {
  HWY_DYNAMIC_DISPATCH(sgd_f32)(value, gradient, velocity, count, step);
}
template <>
void sgd(double* value, const double* gradient, double* velocity, std::size_t count, const SgdStep& step) {
  HWY_DYNAMIC_DISPATCH(sgd_f64)(value, gradient, velocity, count, step);
}

}  // namespace sinew::parallel
#endif
