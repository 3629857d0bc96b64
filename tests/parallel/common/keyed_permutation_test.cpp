#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/sampler/keyed_permutation.hpp>

namespace sinew::parallel {
namespace {

std::vector<std::uint64_t> order_of(std::uint64_t key, std::uint64_t count) {
  const KeyedPermutation permutation(KeyedRandom(key, "order"), count);
  std::vector<std::uint64_t> order;
  for (std::uint64_t place = 0; place < count; ++place) order.push_back(permutation.at(place));
  return order;
}

TEST(KeyedPermutation, HasEachNumberOnce) {
  for (std::uint64_t count = 1; count < 300; ++count) {
    std::vector<bool> seen(count, false);
    for (const std::uint64_t number : order_of(count, count)) {
      ASSERT_LT(number, count);
      EXPECT_FALSE(seen[number]) << number << " of " << count;
      seen[number] = true;
    }
  }
  for (const std::uint64_t count : {99'999, 65'536, 65'537}) {
    std::vector<std::uint64_t> order = order_of(1, count), numbers(count);
    EXPECT_FALSE(std::ranges::is_sorted(order));
    std::iota(numbers.begin(), numbers.end(), 0U);
    std::ranges::sort(order);
    EXPECT_EQ(order, numbers);
  }
}

TEST(KeyedPermutation, DependsOnTheKeyAlone) {
  EXPECT_EQ(order_of(5, 1000), order_of(5, 1000));
  EXPECT_NE(order_of(5, 1000), order_of(6, 1000));
}

/// Compares Pearson's statistic of counts that should be equal with the value that it exceeds in one of 10^6 cases. The
/// value is that of Wilson and Hilferty's approximation.
void expect_even(const std::map<std::string, int>& counts, std::size_t kinds, const std::string& what) {
  EXPECT_EQ(counts.size(), kinds) << what;
  double all = 0, statistic = 0;
  for (const auto& [kind, count] : counts) all += count;
  const double expected = all / static_cast<double>(kinds);
  for (const auto& [kind, count] : counts) statistic += (count - expected) * (count - expected) / expected;
  const double freedom = static_cast<double>(kinds - 1), a = 2 / (9 * freedom);
  const double limit = freedom * std::pow(1 - a + 4.753 * std::sqrt(a), 3);
  EXPECT_LT(statistic, limit) << what;
}

TEST(KeyedPermutation, HasAllOrdersOfFewNumbersEquallyOften) {
  const std::map<std::uint64_t, std::size_t> orders_of{{2, 2}, {3, 6}, {4, 24}, {5, 120}};
  for (const auto& [count, orders] : orders_of) {
    std::map<std::string, int> counts;
    for (std::uint64_t key = 0; key < 200 * orders; ++key) {
      std::string order;
      for (const std::uint64_t number : order_of(key, count)) order += std::to_string(number);
      ++counts[order];
    }
    expect_even(counts, orders, fmt::format("orders of {} numbers", count));
  }
}

TEST(KeyedPermutation, PutsEachNumberEverywhereEquallyOften_NextToEachOtherNumber) {
  for (const std::uint64_t count : {7, 12, 31}) {
    std::map<std::string, int> places, pairs;
    for (std::uint64_t key = 0; key < 20'000; ++key) {
      const std::vector<std::uint64_t> order = order_of(key, count);
      ++places[fmt::format("{} at {}", order[key % count], key % count)];
      ++pairs[fmt::format("{} before {}", order[0], order[1])];
    }
    expect_even(places, count * count, fmt::format("places of {} numbers", count));
    expect_even(pairs, count * (count - 1), fmt::format("neighbours among {} numbers", count));
  }
}

TEST(KeyedPermutation, TakesNoMemoryOfItsLength) {
  const std::uint64_t count = (std::uint64_t{1} << 62) - 57;
  const KeyedPermutation permutation(KeyedRandom(3, "order"), count);
  EXPECT_LT(permutation.at(0), count);
  EXPECT_NE(permutation.at(count - 1), permutation.at(0));
}

TEST(KeyedPermutation, RefusesWhatHasNoOrder) {
  const KeyedRandom random(1, "order");
  EXPECT_THROW(KeyedPermutation(random, 0), Error);
  EXPECT_THROW(KeyedPermutation(random, (std::uint64_t{1} << 62) + 1), Error);
  EXPECT_THROW((void)KeyedPermutation(random, 5).at(5), Error);
}

}  // namespace
}  // namespace sinew::parallel
