#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sinew/parallel/compute/vector_kernels.cpp"
// The first one includes this file again for each target, before anything else is seen.
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <hwy/contrib/math/math-inl.h>
// clang-format on

#include <sinew/parallel/compute/vector_kernels.hpp>
#include <sinew/parallel/kernels/arguments.hpp>

HWY_BEFORE_NAMESPACE();
namespace sinew::parallel::kernels::HWY_NAMESPACE {

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

/// Sum of f(lanes, index) over all elements.
template <class T, class F>
HWY_INLINE T sum_of(std::size_t count, const F& f) {
  const hn::ScalableTag<T> wide;
  const std::size_t lanes = hn::Lanes(wide);
  auto sums = hn::Zero(wide);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) sums = hn::Add(sums, f(wide, i));
  T rest = 0;
  for (; i < count; ++i) rest += hn::GetLane(f(hn::CappedTag<T, 1>(), i));
  return hn::GetLane(hn::SumOfLanes(wide, sums)) + rest;
}

template <class T>
T sum(const T* x, std::size_t n) {
  return sum_of<T>(n, [&](auto d, std::size_t i) HWY_ATTR { return hn::LoadU(d, x + i); });
}
template <class T>
T dot(const T* a, const T* b, std::size_t n) {
  return sum_of<T>(n,
                   [&](auto d, std::size_t i) HWY_ATTR { return hn::Mul(hn::LoadU(d, a + i), hn::LoadU(d, b + i)); });
}
template <class T>
T squares_around(T mean, const T* x, std::size_t n) {
  return sum_of<T>(n, [&](auto d, std::size_t i) HWY_ATTR {
    const auto off = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
    return hn::Mul(off, off);
  });
}

template <class T>
T exponentials(const T* x, T* out, std::size_t n, T* largest) {
  T most = x[0];
  sweep<T>(n, [&](auto d, std::size_t i) HWY_ATTR {
    const T here = hn::GetLane(hn::MaxOfLanes(d, hn::LoadU(d, x + i)));
    most = here > most ? here : most;
  });
  *largest = most;
  return sum_of<T>(n, [&](auto d, std::size_t i) HWY_ATTR {
    const auto e = hn::Exp(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, most)));
    hn::StoreU(e, d, out + i);
    return e;
  });
}

template <class T>
void scale(T* x, T factor, std::size_t n) {
  sweep<T>(n, [&](auto d, std::size_t i)
                  HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor)), d, x + i); });
}
template <class T>
void add(T* to, const T* x, std::size_t n) {
  sweep<T>(n, [&](auto d, std::size_t i)
                  HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::LoadU(d, x + i)), d, to + i); });
}

/// tanh of what gelu takes it of.
template <class D, class V>
HWY_INLINE V gelu_tanh(D d, V x) {
  using T = hn::TFromD<D>;
  const auto cubed = hn::Mul(hn::Mul(hn::Mul(x, x), x), hn::Set(d, static_cast<T>(kGeluCube)));
  return hn::Tanh(d, hn::Mul(hn::Set(d, static_cast<T>(kGeluRoot)), hn::Add(x, cubed)));
}

template <class T>
void gelu(const T* x, T* y, std::size_t n) {
  sweep<T>(n, [&](auto d, std::size_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    const auto half = hn::Mul(v, hn::Set(d, static_cast<T>(0.5)));
    hn::StoreU(hn::Add(half, hn::Mul(half, gelu_tanh(d, v))), d, y + i);
  });
}
template <class T>
void gelu_backward(const T* x, T* dy, std::size_t n) {
  sweep<T>(n, [&](auto d, std::size_t i) HWY_ATTR {
    const auto c = [&](double value) HWY_ATTR { return hn::Set(d, static_cast<T>(value)); };
    const auto v = hn::LoadU(d, x + i);
    const auto t = gelu_tanh(d, v);
    const auto inner = hn::Mul(c(kGeluRoot), hn::MulAdd(hn::Mul(v, v), c(3 * kGeluCube), c(1)));
    const auto slope = hn::Mul(hn::Mul(hn::Mul(v, c(0.5)), hn::NegMulAdd(t, t, c(1))), inner);
    const auto whole = hn::Add(hn::MulAdd(t, c(0.5), c(0.5)), slope);
    hn::StoreU(hn::Mul(hn::LoadU(d, dy + i), whole), d, dy + i);
  });
}

template <class T>
void normalise(const T* x, T mean, T factor, const T* weight, const T* bias, T* out, std::size_t n) {
  sweep<T>(n, [&](auto d, std::size_t i) HWY_ATTR {
    const auto even = hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)), hn::Set(d, factor));
    hn::StoreU(hn::MulAdd(even, hn::LoadU(d, weight + i), hn::LoadU(d, bias + i)), d, out + i);
  });
}

template <class T>
void normalise_gradient(const T* x, T mean, T factor, const T* weight, const T* dy, T* dx, std::size_t n) {
  const auto even = [&](auto d, std::size_t i) HWY_ATTR {
    return hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)), hn::Set(d, factor));
  };
  const auto slope = [&](auto d, std::size_t i)
                         HWY_ATTR { return hn::Mul(hn::LoadU(d, dy + i), hn::LoadU(d, weight + i)); };
  const T slope_mean = sum_of<T>(n, slope) / static_cast<T>(n);
  const T along = sum_of<T>(n, [&](auto d, std::size_t i) HWY_ATTR { return hn::Mul(slope(d, i), even(d, i)); }) /
                  static_cast<T>(n);
  sweep<T>(n, [&](auto d, std::size_t i) HWY_ATTR {
    const auto off = hn::Sub(slope(d, i), hn::Set(d, slope_mean));
    const auto rest = hn::Sub(off, hn::Mul(even(d, i), hn::Set(d, along)));
    hn::StoreU(hn::Mul(rest, hn::Set(d, factor)), d, dx + i);
  });
}

// A table of functions needs them without templates. A type cannot be in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define SINEW_FOR_TYPE(T, name)                                                                                      \
  T sum_##name(const T* x, std::size_t n) { return sum(x, n); }                                                      \
  T dot_##name(const T* a, const T* b, std::size_t n) { return dot(a, b, n); }                                       \
  T squares_around_##name(T mean, const T* x, std::size_t n) { return squares_around(mean, x, n); }                  \
  T exponentials_##name(const T* x, T* out, std::size_t n, T* most) { return exponentials(x, out, n, most); }        \
  void scale_##name(T* x, T factor, std::size_t n) { scale(x, factor, n); }                                          \
  void add_##name(T* to, const T* x, std::size_t n) { add(to, x, n); }                                               \
  void gelu_##name(const T* x, T* y, std::size_t n) { gelu(x, y, n); }                                               \
  void gelu_backward_##name(const T* x, T* dy, std::size_t n) { gelu_backward(x, dy, n); }                           \
  void normalise_##name(const T* x, T mean, T factor, const T* weight, const T* bias, T* out, std::size_t n) {       \
    normalise(x, mean, factor, weight, bias, out, n);                                                                \
  }                                                                                                                  \
  void normalise_gradient_##name(const T* x, T mean, T factor, const T* weight, const T* dy, T* dx, std::size_t n) { \
    normalise_gradient(x, mean, factor, weight, dy, dx, n);                                                          \
  }
SINEW_FOR_TYPE(float, f32)
SINEW_FOR_TYPE(double, f64)
#undef SINEW_FOR_TYPE
// NOLINTEND(bugprone-macro-parentheses)

void narrow_bf16(const float* from, BFloat16* to, std::size_t n) {
  const hn::ScalableTag<std::uint32_t> d;
  const hn::Rebind<std::uint16_t, decltype(d)> half;
  const std::size_t lanes = hn::Lanes(d);
  const auto round = hn::Set(d, 0x7FFF), one = hn::Set(d, 1);
  const hn::RebindToFloat<decltype(d)> f;
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto value = hn::LoadU(f, from + i);
    const auto bits = hn::BitCast(d, value);
    const auto even = hn::And(hn::ShiftRight<16>(bits), one);
    const auto rounded = hn::Add(bits, hn::Add(round, even));
    const auto quiet = hn::Or(bits, hn::Set(d, 0x400000));  // a NaN stays one
    const auto out = hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(value)), quiet, rounded);
    hn::StoreU(hn::TruncateTo(half, hn::ShiftRight<16>(out)), half, reinterpret_cast<std::uint16_t*>(to) + i);
  }
  for (; i < n; ++i) to[i] = sinew::to_bfloat16(from[i]);
}

void widen_bf16(const BFloat16* from, float* to, std::size_t n) {
  const hn::ScalableTag<std::uint32_t> d;
  const hn::Rebind<std::uint16_t, decltype(d)> half;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto bits = hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const std::uint16_t*>(from) + i));
    hn::StoreU(hn::ShiftLeft<16>(bits), d, reinterpret_cast<std::uint32_t*>(to) + i);
  }
  for (; i < n; ++i) to[i] = sinew::to_float(from[i]);
}

}  // namespace sinew::parallel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinew::parallel::kernels {

// NOLINTBEGIN(bugprone-macro-parentheses)
#define SINEW_FOR_TYPE(T, name)                                                                               \
  HWY_EXPORT(sum_##name);                                                                                     \
  HWY_EXPORT(dot_##name);                                                                                     \
  HWY_EXPORT(squares_around_##name);                                                                          \
  HWY_EXPORT(exponentials_##name);                                                                            \
  HWY_EXPORT(scale_##name);                                                                                   \
  HWY_EXPORT(add_##name);                                                                                     \
  HWY_EXPORT(gelu_##name);                                                                                    \
  HWY_EXPORT(gelu_backward_##name);                                                                           \
  HWY_EXPORT(normalise_##name);                                                                               \
  HWY_EXPORT(normalise_gradient_##name);                                                                      \
  template <>                                                                                                 \
  T sum(const T* x, std::size_t n) {                                                                          \
    return HWY_DYNAMIC_DISPATCH(sum_##name)(x, n);                                                            \
  }                                                                                                           \
  template <>                                                                                                 \
  T dot(const T* a, const T* b, std::size_t n) {                                                              \
    return HWY_DYNAMIC_DISPATCH(dot_##name)(a, b, n);                                                         \
  }                                                                                                           \
  template <>                                                                                                 \
  T squares_around(T mean, const T* x, std::size_t n) {                                                       \
    return HWY_DYNAMIC_DISPATCH(squares_around_##name)(mean, x, n);                                           \
  }                                                                                                           \
  template <>                                                                                                 \
  T exponentials(const T* x, T* out, std::size_t n, T* largest) {                                             \
    return HWY_DYNAMIC_DISPATCH(exponentials_##name)(x, out, n, largest);                                     \
  }                                                                                                           \
  template <>                                                                                                 \
  void scale(T* x, T factor, std::size_t n) {                                                                 \
    HWY_DYNAMIC_DISPATCH(scale_##name)(x, factor, n);                                                         \
  }                                                                                                           \
  template <>                                                                                                 \
  void add(T* to, const T* x, std::size_t n) {                                                                \
    HWY_DYNAMIC_DISPATCH(add_##name)(to, x, n);                                                               \
  }                                                                                                           \
  template <>                                                                                                 \
  void gelu(const T* x, T* y, std::size_t n) {                                                                \
    HWY_DYNAMIC_DISPATCH(gelu_##name)(x, y, n);                                                               \
  }                                                                                                           \
  template <>                                                                                                 \
  void gelu_backward(const T* x, T* dy, std::size_t n) {                                                      \
    HWY_DYNAMIC_DISPATCH(gelu_backward_##name)(x, dy, n);                                                     \
  }                                                                                                           \
  template <>                                                                                                 \
  void normalise(const T* x, T mean, T factor, const T* weight, const T* bias, T* out, std::size_t n) {       \
    HWY_DYNAMIC_DISPATCH(normalise_##name)(x, mean, factor, weight, bias, out, n);                            \
  }                                                                                                           \
  template <>                                                                                                 \
  void normalise_gradient(const T* x, T mean, T factor, const T* weight, const T* dy, T* dx, std::size_t n) { \
    HWY_DYNAMIC_DISPATCH(normalise_gradient_##name)(x, mean, factor, weight, dy, dx, n);                      \
  }
SINEW_FOR_TYPE(float, f32)
SINEW_FOR_TYPE(double, f64)
#undef SINEW_FOR_TYPE
// NOLINTEND(bugprone-macro-parentheses)

HWY_EXPORT(narrow_bf16);
HWY_EXPORT(widen_bf16);
void narrow(const float* from, BFloat16* to, std::size_t n) { HWY_DYNAMIC_DISPATCH(narrow_bf16)(from, to, n); }
void widen(const BFloat16* from, float* to, std::size_t n) { HWY_DYNAMIC_DISPATCH(widen_bf16)(from, to, n); }

}  // namespace sinew::parallel::kernels
#endif
