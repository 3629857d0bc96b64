#include <gtest/gtest.h>

#include <sinew/core/call/cost.hpp>

namespace sinew {
namespace {

TEST(CostCurve, IsTheFixedPartOnly_WhenBandwidthIsUnknown) {
  const CostCurve curve{1e-6, 2e-6, {}};
  EXPECT_DOUBLE_EQ(curve.seconds(0), 3e-6);
  EXPECT_DOUBLE_EQ(curve.seconds(1e9), 3e-6);
}

TEST(CostCurve, KeepsTheOuterBandwidth_OutsideTheKnots) {
  const CostCurve curve{0, 1e-6, {{1000, 1e9}, {2000, 2e9}}};
  EXPECT_DOUBLE_EQ(curve.seconds(0), 1e-6);
  EXPECT_DOUBLE_EQ(curve.seconds(100), 1e-6 + 100 / 1e9);
  EXPECT_DOUBLE_EQ(curve.seconds(1000), 1e-6 + 1e-6);
  EXPECT_DOUBLE_EQ(curve.seconds(20000), 1e-6 + 20000 / 2e9);
}

TEST(CostCurve, IsLinear_BetweenKnots) {
  const CostCurve curve{0, 0, {{1000, 4e9}, {3000, 2e9}}};
  EXPECT_DOUBLE_EQ(curve.seconds(2000), (0.25e-6 + 1.5e-6) / 2);
  EXPECT_DOUBLE_EQ(curve.seconds(1500), 0.75 * 0.25e-6 + 0.25 * 1.5e-6);
}

TEST(CostCurve, IsNotLedAstray_ByAKnotWithinTheClocksResolution) {
  const CostCurve curve{0, 1e-6, {{256, 2.6e11}, {4096, 4e9}}};
  EXPECT_NEAR(curve.seconds(2176), 1e-6 + 0.5 * 4096 / 4e9, 1e-8);
}

TEST(CostCurve, NeverFalls_WhenBandwidthLeapsUp) {
  // By bandwidth alone 2000 bytes would take 0.2 us, less than the 1 us that 1000 bytes take.
  const CostCurve curve{0, 0, {{1000, 1e9}, {2000, 1e10}, {4000, 1e9}, {8000, 1e11}}};
  EXPECT_DOUBLE_EQ(curve.seconds(2000), 1e-6);
  double last = 0;
  for (double n = 0; n < 20000; n += 7) {
    const double now = curve.seconds(n);
    ASSERT_GE(now, last) << n;
    last = now;
  }
  EXPECT_DOUBLE_EQ(curve.seconds(8000), 4e-6);
}

}  // namespace
}  // namespace sinew
