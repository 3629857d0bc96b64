// The operators on vectors and on single elements. Included once per instruction set.
#if defined(SINEW_CORE_REDUCE_OPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SINEW_CORE_REDUCE_OPS_INL
#undef SINEW_CORE_REDUCE_OPS_INL
#else
#define SINEW_CORE_REDUCE_OPS_INL
#endif

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sinew {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct SumOp {
  template <class D, class V>
  static HWY_INLINE V lanes(D, V a, V b) {
    return hn::Add(a, b);
  }
  template <class T>
  static HWY_INLINE T one(T a, T b) {
    return static_cast<T>(a + b);
  }
};

struct ProductOp {
  template <class D, class V>
  static HWY_INLINE V lanes([[maybe_unused]] D d, V a, V b) {
    if constexpr (sizeof(hn::TFromD<D>) == 1 && hn::MaxLanes(D()) == 1) {
      return hn::Set(d, one(hn::GetLane(a), hn::GetLane(b)));
    } else if constexpr (sizeof(hn::TFromD<D>) == 1) {
      const hn::Repartition<std::uint16_t, D> wide;  // no CPU multiplies bytes: even and odd ones apart
      const auto even = hn::Mul(hn::BitCast(wide, a), hn::BitCast(wide, b));
      const auto odd = hn::Mul(hn::ShiftRight<8>(hn::BitCast(wide, a)), hn::ShiftRight<8>(hn::BitCast(wide, b)));
      return hn::BitCast(d, hn::Or(hn::And(even, hn::Set(wide, 0xff)), hn::ShiftLeft<8>(odd)));
    } else {
      return hn::Mul(a, b);
    }
  }
  template <class T>
  static HWY_INLINE T one(T a, T b) {
    return static_cast<T>(a * b);
  }
};

/// Floats: -0 is less than +0, and NaN wins, so that the order of the operands does not show in the bits.
struct MinOp {
  template <class D, class V>
  static HWY_INLINE V lanes(D, V a, V b) {
    if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
      // Neither less: equal (only zeros differ in bits: the sign survives Or) or NaN (all exponent bits survive Or).
      return hn::IfThenElse(hn::Lt(a, b), a, hn::IfThenElse(hn::Lt(b, a), b, hn::Or(a, b)));
    } else {
      return hn::Min(a, b);
    }
  }
  template <class T>
  static HWY_INLINE T one(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a || b != b) return a + b;
      if (a == b) return std::signbit(a) ? a : b;
    }
    return b < a ? b : a;
  }
};

struct MaxOp {
  template <class D, class V>
  static HWY_INLINE V lanes([[maybe_unused]] D d, V a, V b) {
    if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
      return hn::Neg(MinOp::lanes(d, hn::Neg(a), hn::Neg(b)));
    } else {
      return hn::Max(a, b);
    }
  }
  template <class T>
  static HWY_INLINE T one(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a || b != b) return a + b;
      if (a == b) return std::signbit(a) ? b : a;
    }
    return a < b ? b : a;
  }
};

struct AndOp {
  template <class D, class V>
  static HWY_INLINE V lanes(D, V a, V b) {
    return hn::And(a, b);
  }
  template <class T>
  static HWY_INLINE T one(T a, T b) {
    return static_cast<T>(a & b);
  }
};

struct OrOp {
  template <class D, class V>
  static HWY_INLINE V lanes(D, V a, V b) {
    return hn::Or(a, b);
  }
  template <class T>
  static HWY_INLINE T one(T a, T b) {
    return static_cast<T>(a | b);
  }
};

struct XorOp {
  template <class D, class V>
  static HWY_INLINE V lanes(D, V a, V b) {
    return hn::Xor(a, b);
  }
  template <class T>
  static HWY_INLINE T one(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace sinew
HWY_AFTER_NAMESPACE();

#endif
