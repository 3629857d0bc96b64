#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include <sinew/core/float_formats.hpp>

namespace sinew {
namespace {

/// The definition of a narrow float, by ldexp: independent of how the library converts.
struct Layout {
  int exponent_bits;
  int mantissa_bits;
  bool infinite;

  unsigned magnitudes() const { return 1u << (exponent_bits + mantissa_bits); }
  unsigned infinity() const { return infinite ? magnitudes() - (1u << mantissa_bits) : magnitudes() - 1; }
  /// The value of a magnitude, also of one that stands for infinity: what would come next without a limit.
  double value(unsigned magnitude) const {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = static_cast<int>(magnitude >> mantissa_bits);
    const int mantissa = static_cast<int>(magnitude & ((1u << mantissa_bits) - 1));
    if (exponent == 0) return std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  }
};

struct HalfFormat {
  static constexpr Layout kLayout{5, 10, true};
  static float decode(unsigned bits) { return to_float(Half{static_cast<std::uint16_t>(bits)}); }
  static unsigned encode(float value) { return to_half(value).bits; }
};
struct BFloat16Format {
  static constexpr Layout kLayout{8, 7, true};
  static float decode(unsigned bits) { return to_float(BFloat16{static_cast<std::uint16_t>(bits)}); }
  static unsigned encode(float value) { return to_bfloat16(value).bits; }
};
struct Float8E4M3Format {
  static constexpr Layout kLayout{4, 3, false};
  static float decode(unsigned bits) { return to_float(Float8E4M3{static_cast<std::uint8_t>(bits)}); }
  static unsigned encode(float value) { return to_float8_e4m3(value).bits; }
};
struct Float8E5M2Format {
  static constexpr Layout kLayout{5, 2, true};
  static float decode(unsigned bits) { return to_float(Float8E5M2{static_cast<std::uint8_t>(bits)}); }
  static unsigned encode(float value) { return to_float8_e5m2(value).bits; }
};

template <class Format>
class FloatFormats : public ::testing::Test {};
using Formats = ::testing::Types<HalfFormat, BFloat16Format, Float8E4M3Format, Float8E5M2Format>;
TYPED_TEST_SUITE(FloatFormats, Formats);

TYPED_TEST(FloatFormats, Decode_IsTheDefinition_ForAllBits) {
  constexpr Layout kLayout = TypeParam::kLayout;
  for (unsigned m = 0; m < kLayout.magnitudes(); ++m) {
    const float plus = TypeParam::decode(m);
    const float minus = TypeParam::decode(m | kLayout.magnitudes());
    if (m < kLayout.infinity()) {
      ASSERT_EQ(plus, kLayout.value(m)) << m;
      ASSERT_EQ(minus, -kLayout.value(m)) << m;
      ASSERT_EQ(std::signbit(minus), true) << m;
    } else if (kLayout.infinite && m == kLayout.infinity()) {
      ASSERT_EQ(plus, std::numeric_limits<float>::infinity());
      ASSERT_EQ(minus, -std::numeric_limits<float>::infinity());
    } else {
      ASSERT_TRUE(std::isnan(plus)) << m;
      ASSERT_TRUE(std::isnan(minus)) << m;
    }
  }
}

TYPED_TEST(FloatFormats, Encode_ReturnsTheBits_WhenTheyWereDecoded) {
  constexpr Layout kLayout = TypeParam::kLayout;
  for (unsigned bits = 0; bits < 2 * kLayout.magnitudes(); ++bits) {
    const float value = TypeParam::decode(bits);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(TypeParam::decode(TypeParam::encode(value)))) << bits;
    } else {
      ASSERT_EQ(TypeParam::encode(value), bits);
    }
  }
}

/// Every boundary between two neighbours, itself and one f32 step to both sides: all that a monotone rounding can get
/// wrong.
TYPED_TEST(FloatFormats, Encode_RoundsToNearestEven_AtEveryBoundary) {
  constexpr Layout kLayout = TypeParam::kLayout;
  const unsigned sign = kLayout.magnitudes();
  for (unsigned m = 0; m < kLayout.infinity(); ++m) {
    const double exact = (kLayout.value(m) + kLayout.value(m + 1)) / 2;
    const auto middle = static_cast<float>(exact);
    if (std::isinf(middle)) continue;
    const unsigned even = m % 2 == 0 ? m : m + 1;
    if (middle == exact) {  // else between two bf16 subnormals of the size of f32's own
      ASSERT_EQ(TypeParam::encode(middle), even) << m;
      ASSERT_EQ(TypeParam::encode(-middle), even | sign) << m;
      ASSERT_EQ(TypeParam::encode(std::nextafter(middle, 0.0f)), m);
      ASSERT_EQ(TypeParam::encode(std::nextafter(-middle, 0.0f)), m | sign);
      ASSERT_EQ(TypeParam::encode(std::nextafter(middle, INFINITY)), m + 1);
    }
  }
}

TYPED_TEST(FloatFormats, Encode_Overflows_WhenBeyondTheLargest) {
  constexpr Layout kLayout = TypeParam::kLayout;
  for (const float huge : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max()}) {
    EXPECT_EQ(TypeParam::encode(huge), kLayout.infinity());
    EXPECT_EQ(TypeParam::encode(-huge), kLayout.infinity() | kLayout.magnitudes());
  }
}

TYPED_TEST(FloatFormats, Encode_GivesOneNan_WhicheverItWas) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(TypeParam::encode(nan), TypeParam::encode(std::copysign(nan, -1.0f)));
  EXPECT_TRUE(std::isnan(TypeParam::decode(TypeParam::encode(nan))));
}

TYPED_TEST(FloatFormats, Encode_UnderflowsToZero_WithTheSign) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(TypeParam::encode(tiny), 0u);
  EXPECT_EQ(TypeParam::encode(-tiny), TypeParam::kLayout.magnitudes());
}

TEST(Float8, Encode_KeepsTheLargest_UpToHalfAStepBeyond) {
  EXPECT_EQ(to_float(to_float8_e4m3(448)), 448);
  EXPECT_EQ(to_float(to_float8_e4m3(464)), 448);
  EXPECT_TRUE(std::isnan(to_float(to_float8_e4m3(465))));
  EXPECT_EQ(to_float(to_float8_e5m2(57344)), 57344);
  EXPECT_EQ(to_float(to_float8_e5m2(61439)), 57344);
  EXPECT_TRUE(std::isinf(to_float(to_float8_e5m2(61440))));
}

}  // namespace
}  // namespace sinew
