#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/call/group.hpp>

namespace sinew {
namespace {

TEST(Group, NumbersRanksAsTheWorldDoes) {
  const Group world{.world_ranks = {0, 1, 2}, .name = "world"};
  EXPECT_EQ(world.text(), "world of 3");
  EXPECT_EQ(world.rank_text(2), "rank 2");
  EXPECT_EQ(world.ranks_text(std::vector{2, 0}), "ranks 0, 2");
}

TEST(Group, ShowsItsOwnNumbersBesideThem_WhereTheyDiffer) {
  const Group tp{.world_ranks = {6, 4, 2}, .communicator = 8, .name = "tp"};
  EXPECT_EQ(tp.text(), "tp of 3");
  EXPECT_EQ(tp.rank_text(1), "rank 4 (1 in tp)");
  EXPECT_EQ(tp.rank_text(2), "rank 2");
  EXPECT_EQ(tp.ranks_text(std::vector{0, 1}), "ranks 4, 6 (1, 0 in tp)");
  EXPECT_EQ(tp.place_of(6), 0);
  EXPECT_EQ(tp.place_of(5), -1);
  EXPECT_EQ(tp.world_rank(3), 3);
}

TEST(Group, ShowsItsId_WhereItHasNoName) {
  const Group group{.world_ranks = {6, 4}, .communicator = 8};
  EXPECT_EQ(group.text(), "communicator 8 of 2");
  EXPECT_EQ(group.rank_text(0), "rank 6 (0 in communicator 8)");
}

TEST(Group, ShowsTheFirstEightOfMany) {
  Group group{.name = "dp"};
  std::vector<int> places;
  for (int r = 0; r < 11; ++r) group.world_ranks.push_back(r), places.push_back(r);
  EXPECT_EQ(group.ranks_text(places), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 3 more");
}

}  // namespace
}  // namespace sinew
