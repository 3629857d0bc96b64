#include <cmath>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sinew/core/numeric/reduce_scale.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <sinew/core/numeric/reduce_sweep-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace sinew {
namespace HWY_NAMESPACE {

template <class CodecType, bool kDivide>
struct Scaled {
  using Codec = CodecType;
  using Raw = typename Codec::Raw;
  using Acc = typename Codec::Acc;
  const Raw* src;
  Acc factor;

  template <class From, class D>
  HWY_INLINE hn::Vec<D> lanes(D d, std::size_t i) const {
    const auto v = From::load(d, src + i);
    if constexpr (kDivide) return hn::Div(v, hn::Set(d, factor));
    return hn::Mul(v, hn::Set(d, factor));
  }
  HWY_INLINE Acc one(std::size_t i) const {
    const Acc v = Codec::load_one(src + i);
    if constexpr (kDivide) return v / factor;
    return v * factor;
  }
};

template <class Codec>
void scale_floats(void* dst, const void* src, std::size_t count, double factor) noexcept {
  using Raw = typename Codec::Raw;
  using Acc = typename Codec::Acc;
  sweep(static_cast<Raw*>(dst), Scaled<Codec, false>{static_cast<const Raw*>(src), static_cast<Acc>(factor)}, count);
}

/// 1/n of a double is not exact where n is not a power of two: dividing by n rounds once, multiplying twice.
void scale_doubles(void* dst, const void* src, std::size_t count, double factor) noexcept {
  const double divisor = std::nearbyint(1.0 / factor);
  auto* out = static_cast<double*>(dst);
  const auto* in = static_cast<const double*>(src);
  if (std::isfinite(divisor) && 1.0 / divisor == factor) {
    sweep(out, Scaled<Plain<double>, true>{in, divisor}, count);
  } else {
    sweep(out, Scaled<Plain<double>, false>{in, factor}, count);
  }
}

/// Wide holds T and any divisor that scaler_for lets through.
template <class T, class Wide = std::common_type_t<T, std::int32_t>>
void divide_integers(void* dst, const void* src, std::size_t count, double factor) noexcept {
  const auto divisor = static_cast<Wide>(std::llround(1.0 / factor));
  const auto* in = static_cast<const std::byte*>(src);
  auto* out = static_cast<std::byte*>(dst);
  for (std::size_t i = 0; i < count; ++i) {
    const T quotient = static_cast<T>(static_cast<Wide>(load_bits<T>(in + i * sizeof(T))) / divisor);
    std::memcpy(out + i * sizeof(T), &quotient, sizeof(T));
  }
}

ScaleFn scale_kernel_here(DType dtype) {
  switch (dtype) {
    case DType::I8: return &divide_integers<std::int8_t>;
    case DType::Bool:
    case DType::U8: return &divide_integers<std::uint8_t>;
    case DType::I16: return &divide_integers<std::int16_t>;
    case DType::U16: return &divide_integers<std::uint16_t>;
    case DType::I32: return &divide_integers<std::int32_t>;
    case DType::U32: return &divide_integers<std::uint32_t>;
    case DType::I64: return &divide_integers<std::int64_t>;
    case DType::U64: return &divide_integers<std::uint64_t>;
    case DType::F16: return &scale_floats<HalfCodec>;
    case DType::BF16: return &scale_floats<BFloat16Codec>;
    case DType::F32: return &scale_floats<FloatInDouble>;
    case DType::F64: return &scale_doubles;
    case DType::F8E4M3: return &scale_floats<Float8E4M3Codec>;
    case DType::F8E5M2: return &scale_floats<Float8E5M2Codec>;
  }
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace sinew
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinew {

HWY_EXPORT(scale_kernel_here);

ScaleFn scale_kernel(DType dtype) { return HWY_DYNAMIC_DISPATCH(scale_kernel_here)(dtype); }

}  // namespace sinew
#endif
