#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/parallel/common/keyed_random.hpp>

namespace sinew::parallel {
namespace {

constexpr std::uint64_t kCount = 200'000;

TEST(KeyedRandom, DependsOnSeedNameAndNumberAlone) {
  const KeyedRandom one(7, "blocks.0.weight"), again(7, "blocks.0.weight");
  for (const std::uint64_t k : {std::uint64_t{0}, std::uint64_t{5}, std::uint64_t{1} << 40}) {
    EXPECT_EQ(one.normal(k), again.normal(k));
    EXPECT_NE(one.normal(k), one.normal(k + 1));
    EXPECT_NE(one.normal(k), KeyedRandom(8, "blocks.0.weight").normal(k));
    EXPECT_NE(one.normal(k), KeyedRandom(7, "blocks.1.weight").normal(k));
  }
}

/// Names that only differ in where they end, or in one byte of any block.
TEST(KeyedRandom, TellsNamesApart) {
  std::set<double> values;
  std::string name;
  for (int length = 0; length < 40; ++length) {
    values.insert(KeyedRandom(1, name).uniform(0));
    for (std::size_t i = 0; i < name.size(); ++i) {
      std::string other = name;
      other[i] = 'b';
      values.insert(KeyedRandom(1, other).uniform(0));
    }
    name += 'a';
  }
  EXPECT_EQ(values.size(), 40U + 40U * 39U / 2U);
}

/// Five standard errors around what theory says of the first four moments.
TEST(KeyedRandom, IsNormal) {
  const KeyedRandom random(1, "w");
  double moments[4] = {};
  for (std::uint64_t k = 0; k < kCount; ++k) {
    const double x = random.normal(k);
    moments[0] += x;
    moments[1] += x * x;
    moments[2] += x * x * x;
    moments[3] += x * x * x * x;
  }
  const double n = kCount, error = 5 / std::sqrt(n);
  EXPECT_NEAR(moments[0] / n, 0, error);
  EXPECT_NEAR(moments[1] / n, 1, error * std::sqrt(2.0));
  EXPECT_NEAR(moments[2] / n, 0, error * std::sqrt(15.0));
  EXPECT_NEAR(moments[3] / n, 3, error * std::sqrt(96.0));
}

TEST(KeyedRandom, FillsItsRangeEvenly) {
  const KeyedRandom random(3, "data");
  constexpr std::uint64_t kLimit = 10;
  std::vector<int> hits(kLimit);
  for (std::uint64_t k = 0; k < kCount; ++k) {
    const std::uint64_t x = random.below(k, kLimit);
    ASSERT_LT(x, kLimit);
    ++hits[x];
    const double u = random.uniform(k);
    ASSERT_GT(u, 0);
    ASSERT_LT(u, 1);
  }
  const double expected = static_cast<double>(kCount) / kLimit;
  for (const int h : hits) EXPECT_NEAR(h, expected, 5 * std::sqrt(expected));
  EXPECT_EQ(random.below(9, 1), 0U);
}

}  // namespace
}  // namespace sinew::parallel
