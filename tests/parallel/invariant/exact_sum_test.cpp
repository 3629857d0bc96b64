#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/parallel/common/keyed_random.hpp>
#include <sinew/parallel/invariant/exact_sum.hpp>

namespace sinew::parallel {
namespace {

using Limits = std::numeric_limits<double>;

double exact(const std::vector<double>& values) {
  ExactSum sum;
  for (const double x : values) sum.add(x);
  return sum.value();
}
double exact_squares(const std::vector<double>& values) {
  ExactSum sum;
  for (const double x : values) sum.add_square(x);
  return sum.value();
}

/// Of any size.
std::vector<double> wild(std::size_t count, double spread) {
  const KeyedRandom random(11, "wild");
  std::vector<double> all;
  for (std::uint64_t i = 0; i < count; ++i)
    all.push_back(random.normal(2 * i) * std::exp(spread * random.normal(2 * i + 1)));
  return all;
}

TEST(ExactSum, DoesNotShowAnOrder) {
  std::vector<double> values = wild(2000, 30);
  const double sum = exact(values), squares = exact_squares(values);
  const KeyedRandom random(12, "orders");
  for (std::uint64_t n = 0; n < 10; ++n) {
    for (std::size_t i = values.size(); i-- > 1;) std::swap(values[i], values[random.below(10000 * n + i, i + 1)]);
    EXPECT_EQ(exact(values), sum);
    EXPECT_EQ(exact_squares(values), squares);
    ExactSum left, right;  // of two ranks
    for (std::size_t i = 0; i < values.size(); ++i) (i < 700 + n ? left : right).add(values[i]);
    std::vector<std::int64_t> words(left.words().begin(), left.words().end());
    for (std::size_t i = 0; i < words.size(); ++i) words[i] += right.words()[i];
    ExactSum both;
    std::ranges::copy(words, both.words().begin());
    EXPECT_EQ(both.value(), sum);
    left += right;
    EXPECT_EQ(left.value(), sum);
  }
}

/// Of numbers whose sum a long double holds exactly.
TEST(ExactSum, IsRoundedOnce) {
  for (std::uint64_t n = 0; n < 200; ++n) {
    const KeyedRandom random(13 + n, "pairs");
    const double a = random.normal(0), b = random.normal(1) * std::ldexp(1.0, -static_cast<int>(random.below(2, 10)));
    EXPECT_EQ(exact({a, b}), a + b);
    EXPECT_EQ(exact_squares({a}), a * a);
    EXPECT_EQ(exact({a}), a);
  }
  const double ulp = Limits::epsilon();
  EXPECT_EQ(exact({1, ulp / 2}), 1);                   // a tie, to even
  EXPECT_EQ(exact({1 + ulp, ulp / 2}), 1 + 2 * ulp);   // likewise
  EXPECT_EQ(exact({1, ulp / 2, 0x1p-1000}), 1 + ulp);  // more than a tie
  EXPECT_EQ(exact({1, ulp / 2, -0x1p-1000}), 1);       // less
  EXPECT_EQ(exact({-1, -ulp / 2, -0x1p-1000}), -1 - ulp);
}

TEST(ExactSum, LosesNothingWhereValuesCancel) {
  EXPECT_EQ(exact({1e300, 1, -1e300}), 1);
  EXPECT_EQ(exact({1e308, 1e308, -1e308, -1e308, 0x1p-1074}), 0x1p-1074);
  EXPECT_EQ(exact({1e16, 1, -1e16, -1}), 0);
  EXPECT_FALSE(std::signbit(exact({1, -1})));
  EXPECT_FALSE(std::signbit(exact({})));
  std::vector<double> values = wild(500, 100);
  for (std::size_t i = 0; i < 500; ++i) values.push_back(-values[499 - i]);
  EXPECT_EQ(exact(values), 0);
}

TEST(ExactSum, KnowsSubnormals) {
  const double least = Limits::denorm_min();
  EXPECT_EQ(exact({least, least, least}), 3 * least);
  EXPECT_EQ(exact({Limits::min(), -least}), Limits::min() - least);
  EXPECT_EQ(exact_squares({least}), 0);  // far below the half of the smallest double
  EXPECT_EQ(exact_squares({0x1p-537}), least);
  EXPECT_EQ(exact_squares({0x1p-538, 0x1p-538}), 0);                // the half of it, to even
  EXPECT_EQ(exact_squares({0x1p-538, 0x1p-538, 0x1p-600}), least);  // a little more
  std::vector<double> many(1 << 12, 0x1p-543);
  EXPECT_EQ(exact_squares(many), 0x1p-1074);
}

TEST(ExactSum, OverflowsOnlyAtTheEnd) {
  const double most = Limits::max();
  EXPECT_EQ(exact({most, most, -most}), most);
  EXPECT_EQ(exact({most, most}), Limits::infinity());
  EXPECT_EQ(exact({-most, -most}), -Limits::infinity());
  EXPECT_EQ(exact_squares({most, most, most}), Limits::infinity());
  EXPECT_EQ(exact({most, 0x1p969}), most);                // less than the half of its last bit
  EXPECT_EQ(exact({most, 0x1p970}), Limits::infinity());  // the half
}

TEST(ExactSum, KeepsWhatIsNoNumber) {
  const double infinity = Limits::infinity();
  EXPECT_TRUE(std::isnan(exact({1, Limits::quiet_NaN(), infinity})));
  EXPECT_TRUE(std::isnan(exact({infinity, -infinity})));
  EXPECT_EQ(exact({1e308, -infinity, 1}), -infinity);
  EXPECT_EQ(exact({infinity, 1, infinity}), infinity);
  EXPECT_EQ(exact_squares({-infinity, infinity}), infinity);
  EXPECT_TRUE(std::isnan(exact_squares({Limits::quiet_NaN()})));
}

}  // namespace
}  // namespace sinew::parallel
