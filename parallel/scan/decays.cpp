#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sinew/parallel/scan/decays.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// Below highway.h, for every target.
#include <hwy/contrib/math/math-inl.h>

#include <sinew/parallel/scan/decays.hpp>

HWY_BEFORE_NAMESPACE();
namespace sinew::parallel {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Highway's knows neither infinity nor what is no number.
template <class D, class V>
HWY_INLINE V exponential(D d, V x) {
  using T = hn::TFromD<D>;
  const auto most = hn::Set(d, static_cast<T>(sizeof(T) == 4 ? 88.72283 : 709.782712893384));
  const auto finite = hn::IfThenElse(hn::Gt(x, most), hn::Inf(d), hn::Exp(d, x));
  return hn::IfThenElse(hn::IsNaN(x), x, finite);
}

template <class T>
void decays_of(const T* dt, const T* a, std::int64_t channels, std::int64_t states, T* to) {
  const hn::ScalableTag<T> wide;
  const hn::CappedTag<T, 1> one;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
  for (std::int64_t d = 0; d < channels; ++d, a += states, to += states) {
    std::int64_t n = 0;
    for (; n + lanes <= states; n += lanes)
      hn::StoreU(exponential(wide, hn::Mul(hn::Set(wide, dt[d]), hn::LoadU(wide, a + n))), wide, to + n);
    for (; n < states; ++n)
      hn::StoreU(exponential(one, hn::Mul(hn::Set(one, dt[d]), hn::LoadU(one, a + n))), one, to + n);
  }
}

void decays_f32(const float* dt, const float* a, std::int64_t channels, std::int64_t states, float* to) {
  decays_of(dt, a, channels, states, to);
}
void decays_f64(const double* dt, const double* a, std::int64_t channels, std::int64_t states, double* to) {
  decays_of(dt, a, channels, states, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace sinew::parallel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinew::parallel {

HWY_EXPORT(decays_f32);
HWY_EXPORT(decays_f64);

template <>
void decays(const float* dt, const float* a, std::int64_t channels, std::int64_t states, float* to) {
  HWY_DYNAMIC_DISPATCH(decays_f32)(dt, a, channels, states, to);
}
template <>
void decays(const double* dt, const double* a, std::int64_t channels, std::int64_t states, double* to) {
  HWY_DYNAMIC_DISPATCH(decays_f64)(dt, a, channels, states, to);
}

}  // namespace sinew::parallel
#endif
