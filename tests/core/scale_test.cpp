#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/numeric/reduce.hpp>
#include <support/kernel_targets.hpp>
#include <support/reduce_reference.hpp>

namespace sinew {
namespace {

using test::bits_at;

std::uint64_t scaled(DType t, std::uint64_t bits, int divisor) {
  if (is_integer(t)) {
    const std::uint64_t mask = ~std::uint64_t{0} >> (64 - 8 * size_of(t));
    if (!is_signed_integer(t)) return bits / static_cast<unsigned>(divisor);
    return static_cast<std::uint64_t>(test::extended(t, bits) / divisor) & mask;
  }
  const double value = test::value_of(t, bits);
  if (t == DType::F64) return test::bits_of(t, value / divisor);
  if (t == DType::F32) return test::bits_of(t, static_cast<float>(value / divisor));
  return test::bits_of(t, static_cast<float>(value) * static_cast<float>(1.0 / divisor));
}

class Scale : public ::testing::TestWithParam<DType> {};

TEST_P(Scale, ByOneOverN_IsTheQuotient_OnEveryTargetAndCount) {
  const DType t = GetParam();
  for (const std::int64_t target : test::cpu_targets()) {
    const test::OnlyTarget only(target);
    for (const int divisor : {1, 2, 3, 7, 49, 200}) {
      if (t == DType::Bool && divisor > 1) continue;
      const Scaler scaler = scaler_for(t, 1.0 / divisor);
      for (const std::size_t count : {0u, 1u, 3u, 16u, 17u, 65u, 4099u}) {
        const auto src = test::any_elements(t, count, 5);
        std::vector<std::byte> dst(src.size() + 1);
        auto in_place = src;
        scaler(dst.data() + 1, src.data(), src.size());
        scaler(in_place.data(), in_place.data(), src.size());
        for (std::size_t i = 0; i < count; ++i) {
          const std::uint64_t expected = scaled(t, bits_at(src.data(), i, t), divisor);
          ASSERT_EQ(bits_at(dst.data() + 1, i, t), expected)
              << test::target_name(target) << " 1/" << divisor << " of element " << i;
          ASSERT_EQ(bits_at(in_place.data(), i, t), expected);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, Scale, ::testing::ValuesIn(all_dtypes().begin(), all_dtypes().end()),
                         [](const auto& each) { return std::string(name_of(each.param)); });

TEST(Scaler, Multiplies_WhenFactorIsNotOneOverN) {
  double d[] = {1, 2, -3};
  scaler_for(DType::F64, 2.5)(d, d, sizeof d);
  EXPECT_EQ(d[0], 2.5);
  EXPECT_EQ(d[2], -7.5);
  float f[] = {1, 2, -3};
  scaler_for(DType::F32, 0)(f, f, sizeof f);
  EXPECT_EQ(f[1], 0);
}

TEST(Scaler, AveragesExactly_WhenMultiplyingByTheReciprocalWouldNot) {
  EXPECT_NE(49.0 * (1.0 / 49), 1.0);
  double d = 49;
  scaler_for(DType::F64, 1.0 / 49)(&d, &d, sizeof d);
  EXPECT_EQ(d, 1.0);
}

/// The average of two numbers, as a collective of two ranks forms it.
template <class T>
T average_of_two(DType dtype, T a, T b) {
  T sum{};
  reducer_for(ReduceOp::Average, dtype)(&sum, &a, &b, sizeof sum);
  scaler_for(dtype, 0.5)(&sum, &sum, sizeof sum);
  return sum;
}

/// As docs/pitfalls.md says: the sum is formed in the element type.
TEST(Scaler, AveragesWhatIsLeftOfTheSum_WhenTheSumOverflows) {
  EXPECT_EQ(average_of_two<std::int8_t>(DType::I8, 100, 100), -28);
  EXPECT_EQ(average_of_two<std::uint8_t>(DType::U8, 200, 100), 22);
  EXPECT_EQ(average_of_two<std::int32_t>(DType::I32, 1 << 30, 1 << 30), -(1 << 30));
  EXPECT_EQ(average_of_two<std::uint32_t>(DType::U32, 1U << 31, 1U << 31), 0U);
  EXPECT_EQ(average_of_two<std::int64_t>(DType::I64, 1LL << 62, 1LL << 62), -(1LL << 62));
  EXPECT_EQ(average_of_two<std::uint64_t>(DType::U64, 1ULL << 63, 1ULL << 63), 0U);
  EXPECT_EQ(average_of_two<std::int32_t>(DType::I32, -2, -1), -1) << "towards zero";
  const auto of_largest = [](DType dtype, double largest) {
    const std::uint64_t bits = test::bits_of(dtype, largest);
    std::uint64_t sum = 0;
    reducer_for(ReduceOp::Average, dtype)(&sum, &bits, &bits, size_of(dtype));
    scaler_for(dtype, 0.5)(&sum, &sum, size_of(dtype));
    return test::value_of(dtype, sum);
  };
  EXPECT_TRUE(std::isinf(of_largest(DType::F64, 1.7e308)));
  EXPECT_TRUE(std::isinf(of_largest(DType::F32, 3e38)));
  EXPECT_TRUE(std::isinf(of_largest(DType::BF16, 3e38)));
  EXPECT_TRUE(std::isinf(of_largest(DType::F16, 65504)));
  EXPECT_TRUE(std::isinf(of_largest(DType::F8E5M2, 57344)));
  EXPECT_TRUE(std::isnan(of_largest(DType::F8E4M3, 448)));
}

TEST(Scaler, IsRefused_WhenIntegersWouldNotBeDividedByAWholeNumber) {
  for (const double factor : {0.0, -0.5, 0.3, 2.0, 1e-12, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(static_cast<void>(scaler_for(DType::I32, factor)), Error) << factor;
  }
  try {
    static_cast<void>(scaler_for(DType::U8, 0.3));
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "scaling u8 by 0.3: expected 1.0 / n for a whole n from 1 to 2147483647");
  }
}

}  // namespace
}  // namespace sinew
