// How elements are loaded for arithmetic and stored again. Included once per instruction set.
#if defined(SINEW_CORE_REDUCE_CODECS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SINEW_CORE_REDUCE_CODECS_INL
#undef SINEW_CORE_REDUCE_CODECS_INL
#else
#define SINEW_CORE_REDUCE_CODECS_INL
#endif

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <hwy/highway.h>

#include <sinew/core/float_formats.hpp>

HWY_BEFORE_NAMESPACE();
namespace sinew {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// One NaN for all: whichever operand it came from, and in whichever order, the bits are the same.
template <class D, class V>
HWY_INLINE V with_one_nan([[maybe_unused]] D d, V v) {
  if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
    return hn::IfThenElse(hn::IsNaN(v), hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN()), v);
  } else {
    return v;
  }
}

template <class T>
HWY_INLINE T load_bits(const void* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

// A codec names the type in memory (Raw), the type of arithmetic (Acc) and the lanes of a vector of results (Lane).

/// Computed in the type that is stored.
template <class T>
struct Plain {
  using Raw = T;
  using Acc = T;
  using Lane = T;

  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const Raw* p) {
    return hn::LoadU(d, p);
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, Raw* p) {
    hn::StoreU(with_one_nan(d, v), d, p);
  }
  static HWY_INLINE Acc load_one(const Raw* p) { return load_bits<T>(p); }
  static HWY_INLINE void store_one(Acc value, Raw* p) {
    if constexpr (std::is_floating_point_v<T>) {
      if (value != value) value = std::numeric_limits<T>::quiet_NaN();
    }
    std::memcpy(p, &value, sizeof(T));
  }
};

/// f32 computed in f64 and rounded once.
struct FloatInDouble {
  using Raw = float;
  using Acc = double;
  using Lane = double;

  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const Raw* p) {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, D>(), p));
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, Raw* p) {
    const auto value = with_one_nan(d, v);
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
    double wide[hn::MaxLanes(D())];  // DemoteTo of these targets makes the largest finite number of infinity
    hn::StoreU(value, d, wide);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) store_one(wide[i], p + i);
#else
    const hn::Rebind<float, D> narrow;
    hn::StoreU(hn::DemoteTo(narrow, value), narrow, p);
#endif
  }
  static HWY_INLINE Acc load_one(const Raw* p) { return static_cast<double>(load_bits<float>(p)); }
  static HWY_INLINE void store_one(Acc value, Raw* p) {
    const float rounded = value != value ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(value);
    std::memcpy(p, &rounded, sizeof(float));
  }
};

HWY_INLINE float decode_one(Half v) { return to_float(v); }
HWY_INLINE float decode_one(BFloat16 v) { return to_float(v); }
HWY_INLINE float decode_one(Float8E4M3 v) { return to_float(v); }
HWY_INLINE float decode_one(Float8E5M2 v) { return to_float(v); }
HWY_INLINE void encode_one(float v, Half& out) { out = to_half(v); }
HWY_INLINE void encode_one(float v, BFloat16& out) { out = to_bfloat16(v); }
HWY_INLINE void encode_one(float v, Float8E4M3& out) { out = to_float8_e4m3(v); }
HWY_INLINE void encode_one(float v, Float8E5M2& out) { out = to_float8_e5m2(v); }

/// The part of a narrow float's codec that works on single elements.
template <class Value>
struct NarrowScalar {
  using Raw = decltype(Value::bits);
  using Acc = float;
  using Lane = float;

  static HWY_INLINE Acc load_one(const Raw* p) { return decode_one(Value{load_bits<Raw>(p)}); }
  static HWY_INLINE void store_one(Acc value, Raw* p) {
    Value narrow;
    encode_one(value, narrow);
    std::memcpy(p, &narrow.bits, sizeof(Raw));
  }
};

/// The elements with an even index of pairs that lie in lanes of 32 bits, as f32.
struct BFloat16Even {
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::uint16_t* p) {
    const hn::RebindToUnsigned<D> wide;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::BitCast(wide, hn::LoadU(hn::Repartition<std::uint16_t, D>(), p))));
  }
};
struct BFloat16Odd {
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::uint16_t* p) {
    const hn::RebindToUnsigned<D> wide;
    const auto both = hn::BitCast(wide, hn::LoadU(hn::Repartition<std::uint16_t, D>(), p));
    return hn::BitCast(d, hn::And(both, hn::Set(wide, 0xffff0000u)));
  }
};

/// f32 with the lower half cut off: even and odd elements are widened, combined and rounded where they lie.
struct BFloat16Codec : NarrowScalar<BFloat16> {
  using Lane = std::uint16_t;

  template <class D, class Input>
  static HWY_INLINE hn::Vec<D> result_at(D d, const Input& in, std::size_t i) {
#if HWY_TARGET == HWY_SCALAR
    Raw bits;
    store_one(in.one(i), &bits);
    return hn::Set(d, bits);
#else
    const hn::RepartitionToWide<D> wide;
    const hn::RebindToFloat<decltype(wide)> floats;
    const auto even = hn::ShiftRight<16>(rounded(floats, in.template lanes<BFloat16Even>(floats, i)));
    const auto odd = hn::And(rounded(floats, in.template lanes<BFloat16Odd>(floats, i)), hn::Set(wide, 0xffff0000u));
    return hn::BitCast(d, hn::Or(even, odd));
#endif
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, Raw* p) {
    hn::StoreU(v, d, p);
  }

  /// f32: the upper halves are the results.
  template <class D, class V = hn::Vec<hn::RebindToUnsigned<D>>>
  static HWY_INLINE V rounded(D d, hn::Vec<D> v) {
    const hn::RebindToUnsigned<D> wide;
    const auto bits = hn::BitCast(wide, with_one_nan(d, v));
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(wide, 1u));
    return hn::Add(bits, hn::Add(odd, hn::Set(wide, 0x7fffu)));
  }
};

/// Any float of 8 or 16 bits with fewer exponent bits than f32, by integer arithmetic in lanes of 32 bits.
/// kInfinite: the largest exponent means infinity and NaN as in IEEE 754; else only all ones is NaN (E4M3).
template <class Value, int kExponentBits, int kMantissaBits, bool kInfinite>
struct NarrowCodec : NarrowScalar<Value> {
  using Raw = typename NarrowScalar<Value>::Raw;
  static constexpr int kDropped = 23 - kMantissaBits;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - kBias) << 23;
  static constexpr int kSignShift = 31 - kExponentBits - kMantissaBits;
  static constexpr std::uint32_t kMagnitude = (1u << (kExponentBits + kMantissaBits)) - 1;
  static constexpr std::uint32_t kExponentMask = kMagnitude & ~((1u << kMantissaBits) - 1);
  static constexpr std::uint32_t kNan = kInfinite ? kExponentMask | 1u << (kMantissaBits - 1) : kMagnitude;
  static constexpr std::uint32_t kLargest = kInfinite ? kExponentMask : kMagnitude;  ///< what overflow becomes
  static constexpr std::uint32_t kSmallestNormal = static_cast<std::uint32_t>(127 - kBias + 1) << 23;  ///< f32 bits
  /// f32 bits of the number whose last place is the smallest subnormal: adding it rounds there.
  static constexpr std::uint32_t kRounder = static_cast<std::uint32_t>(127 + 1 - kBias + kDropped) << 23;
  /// f32 bits of the smallest subnormal.
  static constexpr std::uint32_t kUnit = static_cast<std::uint32_t>(127 + 1 - kBias - kMantissaBits) << 23;

  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const Raw* p) {
    const hn::Rebind<std::uint32_t, D> wide;
    const hn::RebindToSigned<D> ints;
    const auto bits = hn::PromoteTo(wide, hn::LoadU(hn::Rebind<Raw, D>(), p));
    const auto magnitude = hn::And(bits, hn::Set(wide, kMagnitude));
    const auto sign = hn::ShiftLeft<kSignShift>(hn::Xor(bits, magnitude));
    const auto normal = hn::Add(hn::ShiftLeft<kDropped>(magnitude), hn::Set(wide, kRebias));
    const auto tiny = hn::Mul(hn::ConvertTo(d, hn::BitCast(ints, magnitude)), hn::BitCast(d, hn::Set(wide, kUnit)));
    const auto order = hn::BitCast(ints, magnitude);
    const auto is_tiny = hn::Lt(order, hn::Set(ints, 1 << kMantissaBits));
    const auto is_special =
        hn::Gt(order, hn::Set(ints, static_cast<std::int32_t>(kInfinite ? kLargest - 1 : kNan - 1)));
    const auto special = hn::Or(normal, hn::Set(wide, 0x7f800000u));
    const auto value = hn::IfThenElse(hn::RebindMask(wide, is_tiny), hn::BitCast(wide, tiny),
                                      hn::IfThenElse(hn::RebindMask(wide, is_special), special, normal));
    return hn::BitCast(d, hn::Or(value, sign));
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, Raw* p) {
    const hn::Rebind<std::uint32_t, D> wide;
    const hn::RebindToSigned<D> ints;
    const auto bits = hn::BitCast(wide, v);
    const auto sign = hn::And(bits, hn::Set(wide, 0x80000000u));
    const auto magnitude = hn::Xor(bits, sign);
    const auto odd = hn::And(hn::ShiftRight<kDropped>(magnitude), hn::Set(wide, 1u));
    const auto rebiased_half = hn::Set(wide, (1u << (kDropped - 1)) - 1 - kRebias);
    const auto rounded = hn::ShiftRight<kDropped>(hn::Add(magnitude, hn::Add(rebiased_half, odd)));
    const auto rounder = hn::Set(wide, kRounder);
    const auto tiny = hn::Sub(hn::BitCast(wide, hn::Add(hn::BitCast(d, magnitude), hn::BitCast(d, rounder))), rounder);
    const auto is_tiny =
        hn::Lt(hn::BitCast(ints, magnitude), hn::Set(ints, static_cast<std::int32_t>(kSmallestNormal)));
    const auto finite = hn::Min(rounded, hn::Set(wide, kLargest));
    const auto value =
        hn::Or(hn::IfThenElse(hn::RebindMask(wide, is_tiny), tiny, finite), hn::ShiftRight<kSignShift>(sign));
    const auto result = hn::IfThenElse(hn::RebindMask(wide, hn::IsNaN(v)), hn::Set(wide, kNan), value);
    const hn::Rebind<Raw, D> narrow;
    hn::StoreU(hn::TruncateTo(narrow, result), narrow, p);
  }
};

#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || (HWY_ARCH_ARM_A64 && HWY_TARGET == HWY_NEON)
/// By the CPU's own conversions.
struct HalfCodec : NarrowScalar<Half> {
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const Raw* p) {
    const hn::Rebind<hwy::float16_t, D> narrow;
    return hn::PromoteTo(d, hn::BitCast(narrow, hn::LoadU(hn::Rebind<Raw, D>(), p)));
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, Raw* p) {
    const hn::Rebind<Raw, D> narrow;
    const hn::Rebind<hwy::float16_t, D> half;
    hn::StoreU(hn::BitCast(narrow, hn::DemoteTo(half, with_one_nan(d, v))), narrow, p);
  }
};

/// The upper half of an f16.
struct Float8E5M2Codec : NarrowCodec<Float8E5M2, 5, 2, true> {
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const Raw* p) {
    const hn::Rebind<std::uint16_t, D> bits;
    const auto half = hn::ShiftLeft<8>(hn::PromoteTo(bits, hn::LoadU(hn::Rebind<Raw, D>(), p)));
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), half));
  }
};

/// An f16 but for the exponent's bias, 7 instead of 15, and for the largest magnitude, which stands for NaN.
struct Float8E4M3Codec : NarrowCodec<Float8E4M3, 4, 3, false> {
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const Raw* p) {
    const hn::Rebind<std::int16_t, D> bits;
    const auto extended =
        hn::PromoteTo(bits, hn::LoadU(hn::Rebind<std::int8_t, D>(), reinterpret_cast<const std::int8_t*>(p)));
    const auto half = hn::And(hn::ShiftLeft<7>(extended), hn::Set(bits, static_cast<std::int16_t>(0xbf80)));
    const auto scaled = hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), half));
    const auto is_nan = hn::Eq(hn::Abs(scaled), hn::Set(d, 1.875f));
    return hn::IfThenElse(is_nan, hn::NaN(d), hn::Mul(scaled, hn::Set(d, 256.0f)));
  }
};
#else
using HalfCodec = NarrowCodec<Half, 5, 10, true>;
using Float8E4M3Codec = NarrowCodec<Float8E4M3, 4, 3, false>;
using Float8E5M2Codec = NarrowCodec<Float8E5M2, 5, 2, true>;
#endif

}  // namespace HWY_NAMESPACE
}  // namespace sinew
HWY_AFTER_NAMESPACE();

#endif
