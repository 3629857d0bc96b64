#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/selection/measured_curve.hpp>

// What a few measured messages say of all others.
namespace sinew::test {
namespace {

CostCurve assumed() {
  CostCurve curve;
  curve.latency_s = 30e-6;
  curve.knots.push_back({1 << 20, 1.2e9});
  return curve;
}

/// A link of this latency and rate, as it is measured: `noise` of the latency more for every other size.
std::vector<MeasuredSize> link(double latency, double rate, int sizes, double noise = 0) {
  std::vector<MeasuredSize> all;
  for (const double bytes : {8.0, 256.0, 4096.0, 65536.0, 1048576.0, 8388608.0}) {
    if (static_cast<int>(all.size()) == sizes) break;
    all.push_back({bytes, latency * (1 + (all.size() % 2) * noise) + (all.empty() ? 0 : bytes / rate)});
  }
  return all;
}

TEST(MeasuredCurve, IsTheLink) {
  const CostCurve curve = curve_of(link(20e-6, 1e9, 6), 3e-6, assumed());
  EXPECT_NEAR(curve.seconds(0), 20e-6, 1e-9);
  EXPECT_EQ(curve.overhead_s, 3e-6);
  EXPECT_NEAR(curve.seconds(1 << 20), 20e-6 + (1 << 20) / 1e9, 1e-7);
  EXPECT_NEAR(curve.seconds(1 << 28), 20e-6 + (1 << 28) / 1e9, 1e-3);
}

TEST(MeasuredCurve, HasNoOverheadBeyondTheTimeOfAMessage) {
  EXPECT_EQ(curve_of(link(20e-6, 1e9, 6), -1e-6, assumed()).overhead_s, 0);
  const CostCurve all = curve_of(link(20e-6, 1e9, 6), 25e-6, assumed());
  EXPECT_EQ(all.overhead_s, 20e-6);
  EXPECT_EQ(all.latency_s, 0);
}

/// 5 ms one way: nothing but latency shows up to 64 KiB.
TEST(MeasuredCurve, ALongWayIsNoFastOne) {
  for (const int sizes : {1, 2, 3, 4}) {
    const CostCurve curve = curve_of(link(5e-3, 1e9, sizes, 0.02), 0, assumed());
    EXPECT_NEAR(curve.seconds(0), 5e-3, 1e-6) << sizes;
    EXPECT_GT(curve.seconds(64 << 20), 0.04) << sizes << " sizes: 64 MiB take what 1.2 GB/s take";
  }
  const CostCurve known = curve_of(link(5e-3, 1e8, 5, 0.02), 0, assumed());
  EXPECT_NEAR(known.seconds(64 << 20), 5e-3 + (64 << 20) / 1e8, 0.02) << "1 MiB has told the rate";
}

TEST(MeasuredCurve, KeepsToTheShortestMessageWhereNoRateIsAssumedEither) {
  EXPECT_TRUE(curve_of(link(5e-3, 1e9, 3), 0, {}).knots.empty());
}

TEST(LikelySeconds, TellLatencyFromRate) {
  const auto far = link(5e-3, 1e9, 3);
  EXPECT_LT(likely_seconds(far, 65536), 6e-3) << "not 16 times 4 KiB";
  const auto slow = link(50e-6, 1e7, 4);
  EXPECT_NEAR(likely_seconds(slow, 1048576), 0.105, 0.001);
  EXPECT_EQ(likely_seconds(link(5e-3, 1e9, 1), 256), 5e-3);
}

}  // namespace
}  // namespace sinew::test
