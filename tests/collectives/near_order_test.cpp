#include <algorithm>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/hierarchy/near_order.hpp>

namespace sinew {
namespace {

using Order = std::vector<int>;

/// Going round, how many steps lead to another part of a level.
int crossings(const Levels& levels, std::size_t level, const Order& order) {
  int found = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto part = [&](std::size_t at) {
      return levels.part_of[level][static_cast<std::size_t>(order[at % order.size()])];
    };
    found += part(i) != part(i + 1) ? 1 : 0;
  }
  return found;
}

TEST(NearOrder, IsThatOfTheRanks_WherePartsAreSideBySide) {
  EXPECT_EQ(near_order({{{0, 0, 1, 1, 1}}}, 5), (Order{0, 1, 2, 3, 4}));
  EXPECT_EQ(near_order({}, 3), (Order{0, 1, 2}));
}

TEST(NearOrder, TakesPartsInTheOrderOfTheirFirstRanks) {
  EXPECT_EQ(near_order({{{7, 3, 7, 3, 5}}}, 5), (Order{0, 2, 1, 3, 4}));
}

TEST(NearOrder, KeepsNearPartsTogetherInsideFarOnes) {
  // Two hosts in turns, on each of them two NUMA nodes in turns.
  const Levels levels{{{0, 2, 1, 3, 0, 2, 1, 3}, {0, 1, 0, 1, 0, 1, 0, 1}}};
  EXPECT_EQ(near_order(levels, 8), (Order{0, 4, 2, 6, 1, 5, 3, 7}));
}

TEST(NearOrder, LeavesEachPartOfEachLevelOnce_HoweverRanksAreDealt) {
  for (const int hosts : {2, 3, 8}) {
    for (const int ranks : {9, 16, 24, 37}) {
      Levels levels{{{}, {}}};
      for (int r = 0; r < ranks; ++r) {
        const int host = r * r % hosts;
        levels.part_of[0].push_back(2 * host + r * 7 % 5 % 2);
        levels.part_of[1].push_back(host);
      }
      const Order order = near_order(levels, ranks);
      EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), static_cast<std::size_t>(ranks));
      for (const std::size_t level : {0, 1}) {
        const auto parts = std::set<int>(levels.part_of[level].begin(), levels.part_of[level].end()).size();
        EXPECT_EQ(crossings(levels, level, order), static_cast<int>(parts)) << hosts << " hosts, " << ranks << " ranks";
      }
    }
  }
}

}  // namespace
}  // namespace sinew
