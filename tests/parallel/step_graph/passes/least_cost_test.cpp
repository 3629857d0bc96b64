#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/parallel/step_graph/passes/least_cost.hpp>

namespace sinew::parallel {
namespace {

std::size_t place_in(const Factor& factor, const std::vector<std::size_t>& counts,
                     const std::vector<std::size_t>& values) {
  std::size_t place = 0;
  for (const std::size_t c : factor.choices) place = place * counts[c] + values[c];
  return place;
}

Cost cost_of(const std::vector<Factor>& factors, const std::vector<std::size_t>& counts,
             const std::vector<std::size_t>& values) {
  Cost sum;
  for (const Factor& f : factors) sum += f.costs[place_in(f, counts, values)];
  return sum;
}

std::vector<Factor> random_factors(std::mt19937& random, const std::vector<std::size_t>& counts, int how_many) {
  std::vector<Factor> factors;
  for (int i = 0; i < how_many; ++i) {
    Factor factor;
    std::size_t entries = 1;
    for (std::size_t c = 0; c < counts.size(); ++c) {
      if (random() % 3 != 0) continue;
      factor.choices.push_back(c);
      entries *= counts[c];
    }
    for (std::size_t e = 0; e < entries; ++e) {
      factor.costs.push_back({.impossible = random() % 8 == 0 ? 1 : 0,
                              .bytes = static_cast<std::int64_t>(random() % 4),
                              .changes = static_cast<std::int32_t>(random() % 3)});
    }
    factors.push_back(std::move(factor));
  }
  return factors;
}

/// Against all values of all choices.
TEST(LeastCost, IsTheLeastOfAll) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::size_t> counts(1 + random() % 6);
    for (std::size_t& c : counts) c = 1 + random() % 4;
    const std::vector<Factor> factors = random_factors(random, counts, static_cast<int>(random() % 7));
    std::vector<std::size_t> values(counts.size(), 0);
    Cost least = cost_of(factors, counts, values);
    for (bool more = true; more;) {
      more = false;
      for (std::size_t c = 0; c < counts.size() && !more; ++c) {
        more = ++values[c] < counts[c];
        if (!more) values[c] = 0;
      }
      if (more) least = std::min(least, cost_of(factors, counts, values));
    }
    const std::vector<std::size_t> found = least_cost(counts, factors);
    ASSERT_TRUE(cost_of(factors, counts, found) == least) << "round " << round;
  }
}

/// Twelve choices of four values each, all in pairs with all: 16 million values are too many for a table.
TEST(LeastCost, IsNoWorseThanNoChange_WhereAllDependsOnAll) {
  std::mt19937 random(5);
  const std::vector<std::size_t> counts(12, 4);
  std::vector<Factor> factors;
  for (std::size_t a = 0; a < counts.size(); ++a) {
    for (std::size_t b = a + 1; b < counts.size(); ++b) {
      Factor factor{{a, b}, {}};
      for (int e = 0; e < 16; ++e) factor.costs.push_back({.bytes = static_cast<std::int64_t>(random() % 100)});
      factors.push_back(std::move(factor));
    }
  }
  const Cost before = cost_of(factors, counts, std::vector<std::size_t>(counts.size(), 0));
  EXPECT_LT(cost_of(factors, counts, least_cost(counts, factors)).bytes, before.bytes);
}

}  // namespace
}  // namespace sinew::parallel
