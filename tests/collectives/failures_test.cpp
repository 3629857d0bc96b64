#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/control/failures.hpp>

namespace sinew {
namespace {

Notice lost(int rank) { return Notice::of(NoticeKind::RankLost, rank, {Code::PeerLost, "gone"}); }

TEST(Failures, NamesWhoeverWasLostFirst_AsOthersMayHaveEndedForThat) {
  Failures failures(4);
  EXPECT_TRUE(failures.end_of(1, {0, 1, 2, 3}).ok());
  EXPECT_TRUE(failures.learn(lost(2)));
  EXPECT_TRUE(failures.learn(lost(0)));
  EXPECT_FALSE(failures.learn(lost(2)));
  const Status end = failures.end_of(1, {0, 1, 2, 3});
  EXPECT_EQ(end.code(), Code::PeerLost);
  EXPECT_EQ(end.rank(), 2);
}

TEST(Failures, CountsRanksAsTheGroupDoes_AndLeavesOutWhoIsNotInIt) {
  Failures failures(4);
  failures.learn(lost(2));
  failures.learn(lost(3));
  EXPECT_EQ(failures.end_of(1, {0, 3}).rank(), 1);
  EXPECT_TRUE(failures.end_of(1, {0, 1}).ok());
}

TEST(Failures, TakesTheEndOfNoCommunicatorForThatOfTheWorld) {
  Failures failures(3);
  failures.learn(Notice::of(NoticeKind::CommunicatorEnded, 1, {Code::Timeout, "too late"}, 0));
  EXPECT_EQ(failures.end_of(0, {0, 1, 2}).code(), Code::Timeout);
  EXPECT_TRUE(failures.world_end().ok());
  failures.learn(Notice::of(NoticeKind::WorldEnded, 1, {Code::Aborted, "enough"}));
  EXPECT_EQ(failures.world_end().code(), Code::Aborted);
  failures.learn(lost(2));
  EXPECT_EQ(failures.world_end().code(), Code::PeerLost);
  EXPECT_EQ(failures.world_end().rank(), 2);
}

TEST(Failures, TellsInTheOrderInWhichTheyWereLearned) {
  Failures failures(3);
  failures.learn(lost(2));
  failures.learn(lost(1));
  const std::vector<Notice> all = failures.all();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].world_rank, 2);
  EXPECT_EQ(all[1].world_rank, 1);
}

}  // namespace
}  // namespace sinew
