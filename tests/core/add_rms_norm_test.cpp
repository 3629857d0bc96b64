#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/numeric/add_rms_norm.hpp>
#include <support/kernel_targets.hpp>
#include <support/reduce_reference.hpp>

namespace sinew {
namespace {

using test::bits_at;
using test::bits_of;
using test::value_of;

/// Elements that differ along a row and between rows, and lie at an odd address.
class Elements {
 public:
  Elements(DType dtype, std::size_t count, double scale) : dtype_(dtype), bytes_(count * size_of(dtype) + 2 * kEdge) {
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = std::byte{0xa5};
    for (std::size_t i = 0; i < count; ++i)
      test::put_bits(data(), i, dtype, bits_of(dtype, scale * std::sin(1.7 * static_cast<double>(i) + scale)));
  }

  std::byte* data() { return bytes_.data() + kEdge; }
  double operator[](std::size_t i) const { return value_of(dtype_, bits_at(bytes_.data() + kEdge, i, dtype_)); }
  bool edges_are_whole() const {
    for (std::size_t i = 0; i < kEdge; ++i) {
      if (bytes_[i] != std::byte{0xa5} || bytes_[bytes_.size() - 1 - i] != std::byte{0xa5}) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kEdge = 3;
  DType dtype_;
  std::vector<std::byte> bytes_;
};

/// The largest relative error of one rounding.
double unit_of(DType dtype) {
  if (dtype == DType::F64) return 0x1p-53;
  if (dtype == DType::F32) return 0x1p-24;
  return dtype == DType::F16 ? 0x1p-11 : 0x1p-8;
}

class AddRmsNormOf : public ::testing::TestWithParam<DType> {
 protected:
  static constexpr double kEpsilon = 1e-3;

  /// Compares a row with its definition, computed in double.
  static void expect_row(DType t, std::size_t row, std::size_t width, const Elements& normed, const Elements& residual,
                         const Elements& old_residual, const Elements& added, const Elements& weight) {
    double squares = 0;
    for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
      const double sum = t == DType::F64
                             ? old_residual[i] + added[i]
                             : static_cast<double>(static_cast<float>(old_residual[i]) + static_cast<float>(added[i]));
      ASSERT_EQ(residual[i], value_of(t, bits_of(t, sum))) << "residual " << i;
      squares += residual[i] * residual[i];
    }
    const double factor = 1 / std::sqrt(squares / static_cast<double>(width) + kEpsilon);
    for (std::size_t i = 0; i < width; ++i) {
      const double expected = residual[row * width + i] * factor * weight[i];
      const double arithmetic = t == DType::F64 ? 1e-13 : 3e-6;
      ASSERT_NEAR(normed[row * width + i], expected, (unit_of(t) + arithmetic) * std::abs(expected) + 1e-7)
          << "row " << row << ", element " << i;
    }
  }
};

TEST_P(AddRmsNormOf, IsItsDefinition_OnEveryTargetWidthAndAddress) {
  const DType t = GetParam();
  for (const std::int64_t target : test::cpu_targets()) {
    const test::OnlyTarget only(target);
    SCOPED_TRACE(test::target_name(target));
    for (const std::size_t width : {1u, 2u, 7u, 16u, 33u, 128u, 1000u}) {
      for (const std::size_t rows : {0u, 1u, 3u}) {
        const std::size_t count = rows * width;
        const Elements old_residual(t, count, 3), added(t, count, 0.7);
        Elements weight(t, width, 1.2), residual = old_residual, sum = added, normed(t, count, 0);
        const AddRmsNorm shape{.dtype = t, .width = width, .epsilon = kEpsilon, .weight = weight.data()};
        add_rms_norm(shape, rows, normed.data(), residual.data(), residual.data(), sum.data());
        for (std::size_t r = 0; r < rows; ++r) expect_row(t, r, width, normed, residual, old_residual, added, weight);
        EXPECT_TRUE(normed.edges_are_whole() && residual.edges_are_whole());
        Elements elsewhere(t, count, 0), from = old_residual;
        add_rms_norm(shape, rows, sum.data(), elsewhere.data(), from.data(), sum.data());
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(elsewhere[i], residual[i]);
          ASSERT_EQ(sum[i], normed[i]) << "written over what is added";
          ASSERT_EQ(from[i], old_residual[i]);
        }
        EXPECT_TRUE(sum.edges_are_whole() && elsewhere.edges_are_whole());
      }
    }
  }
}

TEST_P(AddRmsNormOf, KeepsNotANumberInItsRow) {
  const DType t = GetParam();
  constexpr std::size_t kWidth = 40;
  Elements residual(t, 2 * kWidth, 1), added(t, 2 * kWidth, 1), weight(t, kWidth, 1), normed(t, 2 * kWidth, 0);
  test::put_bits(added.data(), 5, t, bits_of(t, std::numeric_limits<double>::quiet_NaN()));
  add_rms_norm({.dtype = t, .width = kWidth, .weight = weight.data()}, 2, normed.data(), residual.data(),
               residual.data(), added.data());
  for (std::size_t i = 0; i < kWidth; ++i) EXPECT_TRUE(std::isnan(normed[i])) << i;
  for (std::size_t i = kWidth; i < 2 * kWidth; ++i) EXPECT_TRUE(std::isfinite(normed[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(Floats, AddRmsNormOf, ::testing::Values(DType::F16, DType::BF16, DType::F32, DType::F64),
                         [](const auto& each) { return std::string(name_of(each.param)); });

TEST(AddRmsNorm, IsForFloatsOf16BitsAndMore) {
  for (const DType t : all_dtypes()) EXPECT_EQ(has_add_rms_norm(t), !is_integer(t) && size_of(t) >= 2) << name_of(t);
}

}  // namespace
}  // namespace sinew
