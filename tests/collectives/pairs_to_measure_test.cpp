#include <algorithm>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/selection/pairs_to_measure.hpp>

// Which ranks measure what lies between hosts, and within one.
namespace sinew::test {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

/// One transport; `host_of` by rank, each a process of its own.
Facts hosts(const std::vector<int>& host_of) {
  Facts facts;
  int count = 0;
  for (std::size_t r = 0; r < host_of.size(); ++r) {
    facts.ranks.push_back({host_of[r], static_cast<int>(r)});
    count = std::max(count, host_of[r] + 1);
  }
  facts.cores_of_host.assign(static_cast<std::size_t>(count), 2);
  facts.transports = {"wire"};
  for (int a = 0; a < count; ++a) {
    for (int b = a; b < count; ++b) facts.links[{a, b, false}] = {{"wire", {true, {}, {}, "network"}}};
  }
  return facts;
}

TEST(PairsToMeasure, LinksThatLookAlike_AreOfOneKind) {
  const auto pairs = pairs_between_hosts(hosts({2, 0, 1, 1, 2}));
  ASSERT_THAT(pairs, SizeIs(1));
  EXPECT_EQ(pairs[0].a, 1);
  EXPECT_EQ(pairs[0].b, 2);
  EXPECT_THAT(pairs[0].holds_for, ElementsAre(LinkClass{0, 1}, LinkClass{0, 2}, LinkClass{1, 2}));
}

TEST(PairsToMeasure, EachKindHasItsPair_ByRateAndByWhetherThereIsAWay) {
  Facts facts = hosts({0, 1, 2, 3});
  facts.links[{0, 2, false}][0].reach.cost.knots.push_back({64.0, 2e9});
  facts.links[{1, 3, false}][0].reach.cost.knots.push_back({64.0, 2e9});
  facts.links[{2, 3, false}][0].reach = {false, "no route", {}, {}};
  const auto pairs = pairs_between_hosts(facts);
  ASSERT_THAT(pairs, SizeIs(3));
  EXPECT_THAT(pairs[0].holds_for, ElementsAre(LinkClass{0, 1}, LinkClass{0, 3}, LinkClass{1, 2}));
  EXPECT_THAT(pairs[1].holds_for, ElementsAre(LinkClass{0, 2}, LinkClass{1, 3}));
  EXPECT_EQ(pairs[1].a, 0);
  EXPECT_EQ(pairs[1].b, 2);
  EXPECT_THAT(pairs[2].holds_for, ElementsAre(LinkClass{2, 3}));
}

TEST(PairsToMeasure, OfManyKinds_FewAreMeasured) {
  std::vector<int> one_each;
  for (int h = 0; h < 12; ++h) one_each.push_back(h);
  Facts facts = hosts(one_each);
  double rate = 1e9;
  for (auto& [where, row] : facts.links) row[0].reach.cost.knots.push_back({64.0, rate += 1e6});
  EXPECT_THAT(pairs_between_hosts(facts), SizeIs(4));
}

TEST(PairsToMeasure, WithinAHost_ProcessesComeBeforeThreads) {
  Facts facts = hosts({0, 1, 1, 1});
  facts.ranks[2].process = facts.ranks[1].process;
  const auto pair = pair_of_a_host(facts);
  ASSERT_TRUE(pair);
  EXPECT_EQ(pair->a, 1);
  EXPECT_EQ(pair->b, 3);
  facts.ranks[3].process = facts.ranks[1].process;
  EXPECT_EQ(pair_of_a_host(facts)->b, 2);
  EXPECT_FALSE(pair_of_a_host(hosts({0, 1, 2})));
}

}  // namespace
}  // namespace sinew::test
