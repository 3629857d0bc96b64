#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/store/elastic_members.hpp>

namespace sinew {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<ElasticMembers::Id>;

/// A job of which the test says who comes and goes.
class Elastic {
 public:
  Elastic(int least, int most, std::vector<int> counts = {})
      : members({.least = least, .most = most, .first_wait = seconds(30)}), counts_(std::move(counts)) {}

  void come(const Ids& ids, const std::string& host = "a", bool holds_state = false) {
    for (const ElasticMembers::Id id : ids)
      members.wait(id, {.host = host, .pid = static_cast<int>(id), .counts = counts_, .holds_state = holds_state});
  }
  /// The ids of the next round by rank, and behind them those that lose their rank. Empty: there is no round.
  Ids form() {
    const auto formed = members.form(Clock::now());
    if (!formed) return {};
    round = formed->round;
    return formed->ids;
  }

  ElasticMembers members;
  FormedRound round;

 private:
  std::vector<int> counts_;
};

TEST(ElasticMembers, TheFirstRoundWaitsForAllThatWereStarted) {
  Elastic job(2, 4);
  job.members.expect(3);
  job.come({7, 8});
  EXPECT_THAT(job.form(), ElementsAre());
  EXPECT_GT(job.members.next_look().at(), Clock::now());
  job.come({9});
  EXPECT_THAT(job.form(), ElementsAre(7, 8, 9));
  EXPECT_EQ(job.round.number, 1U);
  EXPECT_EQ(job.round.ranks, 3);
}

TEST(ElasticMembers, TheFirstRoundGoesOnWithoutThoseThatDoNotComeInTime) {
  Elastic job(2, 4);
  job.members.expect(3);
  job.come({7, 8});
  const auto formed = job.members.form(Clock::now() + seconds(31));
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->round.ranks, 2);
}

TEST(ElasticMembers, ARoundWithTooFewWaits_AndSaysForWhat) {
  Elastic job(3, 4);
  job.come({1, 2});
  EXPECT_THAT(job.form(), ElementsAre());
  EXPECT_THAT(job.members.waits_for(), HasSubstr("2 members wait, the job runs with 3 ranks at least"));
  job.come({3});
  EXPECT_THAT(job.form(), ElementsAre(1, 2, 3));
}

TEST(ElasticMembers, NoRoundIsFormedWhileARankOfTheLastOneHasNotCome) {
  Elastic job(1, 4);
  job.come({1, 2, 3});
  job.form();
  job.come({1, 3, 4});
  EXPECT_THAT(job.form(), ElementsAre());
  EXPECT_THAT(job.members.waits_for(), HasSubstr("rank 1 (pid 2 on a) of round 1 has not come"));
  job.members.leave(2);
  EXPECT_THAT(job.form(), ElementsAre(1, 4, 3));  // the new member has the free rank, and the others keep theirs
  EXPECT_EQ(job.round.members[1].before, -1);
  EXPECT_EQ(job.round.members[2].before, 2);
}

TEST(ElasticMembers, ThoseThatWaitBeginAnewOnlyAfterAWhile_WhenAllRanksHaveGone) {
  Elastic job(1, 2);
  job.come({1, 2, 3});
  EXPECT_THAT(job.form(), ElementsAre(1, 2));
  job.members.leave(1);
  job.members.leave(2);
  EXPECT_THAT(job.form(), ElementsAre());
  EXPECT_GT(job.members.next_look().at(), Clock::now());
  const auto formed = job.members.form(Clock::now() + seconds(2));
  ASSERT_TRUE(formed);
  EXPECT_THAT(formed->ids, ElementsAre(3));
}

TEST(ElasticMembers, ASpareTakesTheRankOfOneThatHasGone) {
  Elastic job(4, 4);
  job.come({1, 2, 3, 4, 5});
  EXPECT_THAT(job.form(), ElementsAre(1, 2, 3, 4));
  EXPECT_FALSE(job.members.is_change_due());
  job.members.leave(1);
  job.come({2, 3, 4});
  EXPECT_THAT(job.form(), ElementsAre(5, 2, 3, 4));
}

TEST(ElasticMembers, AMemberBeyondTheCountsLosesItsRank_AndIsListedToHandOverItsState) {
  Elastic job(1, 6, {2, 4, 6});
  job.come({1, 2, 3, 4, 5, 6});
  job.form();
  job.members.leave(1);
  job.come({2, 3, 4, 5, 6}, "a", true);
  // 4 ranks are left of 5 members. Rank 4 held what rank 0 held, so it takes that place; rank 5 has none.
  EXPECT_THAT(job.form(), ElementsAre(5, 2, 3, 4, 6));
  EXPECT_EQ(job.round.ranks, 4);
  EXPECT_EQ(job.round.members[0].before, 4);
  EXPECT_EQ(job.round.members[4].before, 5);
  // It waits again as one that holds no state any more, and a new member makes a replica with it.
  job.come({6});
  EXPECT_FALSE(job.members.is_change_due());
  job.come({7});
  EXPECT_TRUE(job.members.is_change_due());
  EXPECT_THAT(job.form(), ElementsAre());
  job.come({2, 3, 4, 5});
  EXPECT_THAT(job.form(), ElementsAre(5, 2, 3, 4, 6, 7));
  EXPECT_EQ(job.round.members[4].before, -1);
}

TEST(ElasticMembers, AMemberThatStillHoldsStateIsListedAgain) {
  Elastic job(1, 4, {2, 4});
  job.come({1, 2, 3, 4});
  job.form();
  job.members.leave(1);
  job.come({2, 3, 4}, "a", true);
  EXPECT_THAT(job.form(), ElementsAre(3, 2, 4));
  job.members.leave(3);  // before it had the state
  job.come({2, 4}, "a", true);
  EXPECT_THAT(job.form(), ElementsAre(4, 2));
  EXPECT_EQ(job.round.ranks, 2);
}

TEST(ElasticMembers, NewMembersOfAHostAreNeighbours) {
  Elastic job(1, 6);
  job.come({1}, "a");
  job.come({2}, "b");
  job.come({3}, "a");
  job.come({4}, "b");
  EXPECT_THAT(job.form(), ElementsAre(1, 3, 2, 4));
  job.members.leave(4);
  job.come({5}, "c");
  job.come({6}, "b");
  job.come({1, 3}, "a");
  job.come({2}, "b");
  EXPECT_THAT(job.form(), ElementsAre(1, 3, 2, 6, 5));
}

TEST(ElasticMembers, AChangeIsDueOnlyIfItGivesMoreRanks) {
  Elastic job(1, 3);
  job.come({1, 2});
  job.form();
  EXPECT_FALSE(job.members.is_change_due());
  job.come({3});
  EXPECT_TRUE(job.members.is_change_due());
  job.come({1, 2});
  job.form();
  job.come({4});
  EXPECT_FALSE(job.members.is_change_due());  // it is a spare
}

TEST(ElasticMembers, RefusesCountsThatDiffer) {
  Elastic job(1, 4, {2, 4});
  job.come({1});
  try {
    job.members.wait(2, {.host = "b", .pid = 12, .counts = {3}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    EXPECT_THAT(e.what(), HasSubstr("pid 12 on b can run with [3] ranks, the other members with [2, 4]"));
  }
  EXPECT_THROW(job.members.wait(3, {.counts = {4, 2}}), Error);
  EXPECT_THROW(job.members.wait(3, {.counts = {0, 2}}), Error);
}

TEST(ElasticMembers, RoundsTravelAsBytes) {
  FormedRound round{.number = 1ULL << 40, .ranks = 1, .place = 1, .members = {{"a", 5, -1}, {"b", 6, 3}}};
  const FormedRound back = FormedRound::decode(round.encode());
  EXPECT_EQ(back.number, round.number);
  EXPECT_EQ(back.place, 1);
  ASSERT_EQ(back.members.size(), 2U);
  EXPECT_EQ(back.members[1].host, "b");
  EXPECT_EQ(back.members[1].before, 3);
  Bytes cut = round.encode();
  cut.resize(cut.size() - 1);
  EXPECT_THROW(FormedRound::decode(cut), Error);
}

}  // namespace
}  // namespace sinew
