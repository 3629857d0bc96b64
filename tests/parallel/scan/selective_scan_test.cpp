#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/parallel/scan/selective_scan.hpp>
#include <support/kernel_targets.hpp>
#include <support/worlds.hpp>

#include "whole_scan.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using test::at;
using test::PartOfScan;
using test::Values;
using test::wave;
using test::WholeScan;
using test::worst;

std::vector<std::int64_t> all_positions(std::int64_t length) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(length));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(WholeScan, HasTheGradientsOfItsLoss) {
  const WholeScan scan({2, 3, 2}, 7);
  const auto check = [&](Values WholeScan::*input, const Values& gradient, const std::string& which) {
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      constexpr double kStep = 1e-5;
      WholeScan moved = scan;
      (moved.*input)[i] += kStep;
      moved.run();
      const double above = moved.loss();
      (moved.*input)[i] -= 2 * kStep;
      moved.run();
      EXPECT_NEAR((above - moved.loss()) / (2 * kStep), gradient[i], 1e-8) << which << " " << i;
    }
  };
  check(&WholeScan::x, scan.dx, "x");
  check(&WholeScan::dt, scan.ddt, "dt");
  check(&WholeScan::b, scan.db, "b");
  check(&WholeScan::c, scan.dc, "c");
  check(&WholeScan::a, scan.da, "a");
  check(&WholeScan::skip, scan.dskip, "skip");
}

/// Scans whole sequences run by run, what leaves one entering the next; backward the other way.
void scan_in_runs(SelectiveScan<double>& scan, PartOfScan& part, const std::vector<std::int64_t>& ends,
                  std::int64_t state) {
  std::vector<Values> before(ends.size(), Values(static_cast<std::size_t>(state)));
  for (std::size_t i = 0; i + 1 < ends.size(); ++i)
    scan.forward(part.in, {ends[i], ends[i + 1]}, before[i].data(), part.out.y.data(), before[i + 1].data());
  Values coming(static_cast<std::size_t>(state));
  for (std::size_t i = ends.size() - 1; i > 0; --i)
    scan.backward(part.in, {ends[i - 1], ends[i]}, before[i - 1].data(), part.dy.data(), coming.data(), part.to,
                  coming.data());
}

TEST(SelectiveScan, IsTheDefinition_InOneRunAndInMany) {
  for (const ScanSizes& sizes : {ScanSizes{1, 1, 1}, ScanSizes{2, 3, 4}, ScanSizes{3, 33, 5}}) {
    for (const std::int64_t length : {1, 5, 64, 65, 150}) {
      const WholeScan whole(sizes, length);
      const std::vector<std::vector<std::int64_t>> cuts{
          {0, length}, {0, length / 3, length / 3, length / 2, length}, {0, 0, length - 1, length}};
      for (const auto& ends : cuts) {
        SelectiveScan<double> scan(sizes, length);
        PartOfScan part(whole, all_positions(length));
        scan_in_runs(scan, part, ends, sizes.state());
        const std::string which = fmt::format("{} channels, {} long, {} runs", sizes.channels, length, ends.size() - 1);
        EXPECT_LT(worst(part.out.y, whole.y), 1e-12) << which;
        EXPECT_LT(worst(part.out.dx, whole.dx), 1e-12) << which;
        EXPECT_LT(worst(part.out.ddt, whole.ddt), 1e-12) << which;
        EXPECT_LT(worst(part.out.db, whole.db), 1e-12) << which;
        EXPECT_LT(worst(part.out.dc, whole.dc), 1e-12) << which;
        EXPECT_LT(worst(part.out.da, whole.da), 1e-12) << which;
        EXPECT_LT(worst(part.out.dskip, whole.dskip), 1e-12) << which;
      }
    }
  }
}

TEST(SelectiveScan, AddsToTheGradientsOfParametersOnly) {
  const WholeScan whole({2, 3, 4}, 20);
  SelectiveScan<double> scan(whole.n, 20);
  PartOfScan part(whole, all_positions(20));
  for (int pass = 0; pass < 2; ++pass)
    scan.backward(part.in, {0, 20}, nullptr, part.dy.data(), nullptr, part.to, nullptr);
  EXPECT_LT(worst(part.out.dx, whole.dx), 1e-12);
  EXPECT_LT(worst(part.out.db, whole.db), 1e-12);
  for (std::size_t i = 0; i < whole.da.size(); ++i) EXPECT_NEAR(part.out.da[i], 2 * whole.da[i], 1e-11);
  for (std::size_t i = 0; i < whole.dskip.size(); ++i) EXPECT_NEAR(part.out.dskip[i], 2 * whole.dskip[i], 1e-11);
}

/// A summary with any state, and the scan of the run itself with it: the same.
TEST(SelectiveScan, SumsUpWhatARunDoesToAnyState) {
  const WholeScan whole({2, 18, 3}, 90);
  const ScanSizes& n = whole.n;
  const Rows run{7, 85};
  SelectiveScan<double> scan(n, 90);
  PartOfScan part(whole, all_positions(90));
  const Values enters = wave(n.state(), 8), enters_behind = wave(n.state(), 9);
  Values left(enters), left_before(enters), from_zero(enters), gradient_from_zero(enters);
  Values dt_sum(static_cast<std::size_t>(n.sequences * n.channels)), dt_sum_back(dt_sum);
  scan.forward(part.in, run, enters.data(), part.out.y.data(), left.data());
  scan.backward(part.in, run, enters.data(), part.dy.data(), enters_behind.data(), part.to, left_before.data());
  scan.summary(part.in, run, dt_sum.data(), from_zero.data());
  scan.gradient_summary(part.in, run, part.dy.data(), dt_sum_back.data(), gradient_from_zero.data());
  EXPECT_EQ(dt_sum, dt_sum_back);
  for (std::int64_t i = 0; i < n.state(); ++i) {
    const double kept = std::exp(at(whole.a, i % (n.channels * n.states)) * at(dt_sum, i / n.states));
    EXPECT_NEAR(kept * at(enters, i) + at(from_zero, i), at(left, i), 1e-12);
    EXPECT_NEAR(kept * at(enters_behind, i) + at(gradient_from_zero, i), at(left_before, i), 1e-12);
  }
}

TEST(SelectiveScan, HoldsStatesOfChunksOfAFewChannels) {
  constexpr std::int64_t kTokens = 1000;
  const WholeScan whole({1, 40, 2}, kTokens);
  SelectiveScan<double> scan(whole.n, kTokens);
  PartOfScan part(whole, all_positions(kTokens));
  scan.backward(part.in, {0, kTokens}, nullptr, part.dy.data(), nullptr, part.to, nullptr);
  const std::size_t each = 16 * 2 * sizeof(double);
  EXPECT_EQ(scan.held_bytes(), (16 + 65 + 64 + 3) * each) << "1000 / 64 chunks, a chunk's states and decays, a few";
  EXPECT_LT(worst(part.out.dx, whole.dx), 1e-12);
}

TEST(SelectiveScan, IsAsGoodInSinglePrecision) {
  const WholeScan whole({2, 3, 4}, 100);
  const auto narrow = [](const Values& v) { return std::vector<float>(v.begin(), v.end()); };
  const auto x = narrow(whole.x), dt = narrow(whole.dt), b = narrow(whole.b), c = narrow(whole.c), a = narrow(whole.a),
             skip = narrow(whole.skip), dy = narrow(whole.dy);
  std::vector<float> y(x), dx(x), ddt(x), db(b), dc(b), da(a.size()), dskip(skip.size());
  SelectiveScan<float> scan(whole.n, 100);
  const ScanInputs<float> in{x.data(), dt.data(), b.data(), c.data(), a.data(), skip.data()};
  scan.forward(in, {0, 100}, nullptr, y.data(), nullptr);
  scan.backward(in, {0, 100}, nullptr, dy.data(), nullptr,
                {dx.data(), ddt.data(), db.data(), dc.data(), da.data(), dskip.data()}, nullptr);
  const auto wide = [](const std::vector<float>& v) { return Values(v.begin(), v.end()); };
  EXPECT_LT(worst(wide(y), whole.y), 1e-5);
  EXPECT_LT(worst(wide(dx), whole.dx), 1e-5);
  EXPECT_LT(worst(wide(ddt), whole.ddt), 1e-5);
  EXPECT_LT(worst(wide(da), whole.da), 1e-5);
}

/// One token takes a state of 1 to exp(dt * a).
template <class T>
std::vector<T> decays(const std::vector<T>& exponents) {
  const std::vector<T> one(exponents.size(), 1), none(exponents.size());
  const auto states = static_cast<std::int64_t>(exponents.size());
  std::vector<T> left(exponents.size());
  T y{0};
  SelectiveScan<T> scan({1, 1, states}, 1);
  scan.forward({none.data(), one.data(), none.data(), none.data(), exponents.data(), none.data()}, {0, 1}, one.data(),
               &y, left.data());
  return left;
}

template <class T>
void check_decays(const std::string& which) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity(), kNone = std::numeric_limits<T>::quiet_NaN();
  std::vector<T> exponents{0,          -0.0,  -0.001, -1, -20, -87, -104, -700, -746,     -5000,
                           -kInfinity, kNone, 1,      88, 89,  700, 710,  5000, kInfinity};
  for (int i = 0; i < 1000; ++i) exponents.push_back(static_cast<T>(std::sin(i) * 80));
  const std::vector<T> found = decays(exponents);
  for (std::size_t i = 0; i < exponents.size(); ++i) {
    const T expected = std::exp(exponents[i]);
    if (std::isnan(expected) || std::isinf(expected)) {
      EXPECT_TRUE(std::isnan(expected) ? std::isnan(found[i]) : found[i] == expected) << which << exponents[i];
    } else {
      const T step = std::max(expected * std::numeric_limits<T>::epsilon(), std::numeric_limits<T>::min());
      EXPECT_NEAR(found[i], expected, 2 * step) << which << exponents[i];
    }
  }
}

TEST(SelectiveScan, KeepsOfAStateWhatTheExponentialSays_OnEveryTarget) {
  ASSERT_FALSE(sinew::test::cpu_targets().empty());
  for (const std::int64_t target : sinew::test::cpu_targets()) {
    const sinew::test::OnlyTarget only(target);
    check_decays<float>("f32, " + sinew::test::target_name(target) + ": ");
    check_decays<double>("f64, " + sinew::test::target_name(target) + ": ");
  }
}

TEST(SelectiveScan, SaysWhatDoesNotFit) {
  EXPECT_EQ(complaint([] {
              SelectiveScan<float>({1, 4, 0}, 8);
            }),
            "selective scan: 1 sequences of 8 tokens, 4 channels with 0 states: expected 1 or more sequences and "
            "states, 0 or more tokens and channels");
  EXPECT_NE(complaint([] { SelectiveScan<float>({1, 4, 2}, -1); }).find("-1 tokens"), std::string::npos);
}

}  // namespace
}  // namespace sinew::parallel
