#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "program.hpp"

namespace gpt {
namespace {

using test::content;
using test::kTiny;
using test::last_loss;
using test::lines;
using test::Strings;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kSteps = "160";

/// Training under the launcher, of which ranks are killed.
class Elastic : public test::Program {
 protected:
  /// Each of `killed` (of as many ranks) is killed when so many steps are in the metrics, and the others go on.
  test::Outcome kill(int ranks, const std::vector<std::pair<int, int>>& killed, const Strings& options) const {
    std::string run = GPT;
    for (const Strings& more :
         {kTiny, Strings{"--elastic", "--dtype", "f64", "--steps", kSteps, "--metrics", in("m")}, options}) {
      for (const std::string& word : more) run += " " + word;
    }
    std::string script;
    for (const auto& [rank, steps] : killed)
      script += "if [ $RANK = " + std::to_string(rank) + " ]; then " + run + " & while kill -0 $! 2>/dev/null && " +
                "[ $(cat " + in("m") + " 2>/dev/null | wc -l) -lt " + std::to_string(steps) +
                " ]; do sleep 0.01; done; kill -9 $!; wait $!; exit 137; fi; ";
    return sinew::test::run_program(
        {SINEW_RUN, "-n", std::to_string(ranks), "--on-failure", "continue", "sh", "-c", script + "exec " + run});
  }

  /// These ranks (of as many) are killed at once when so many steps are in the metrics, and the others go on.
  test::Outcome kill_at_once(int ranks, const std::vector<int>& killed, int steps, const Strings& options) const {
    std::string run = GPT, all = "kill -9";
    for (const Strings& more :
         {kTiny, Strings{"--elastic", "--dtype", "f64", "--steps", kSteps, "--metrics", in("m")}, options}) {
      for (const std::string& word : more) run += " " + word;
    }
    std::string script = "pid=" + in("pid") + "; ";
    for (const int rank : killed) all += " $(cat ${pid}" + std::to_string(rank) + ")";
    for (const int rank : killed) {
      script += "if [ $RANK = " + std::to_string(rank) + " ]; then " + run + " & echo $! >${pid}$RANK; ";
      if (rank == killed.front())
        script += "while [ $(cat " + in("m") + " 2>/dev/null | wc -l) -lt " + std::to_string(steps) +
                  " ]; do sleep 0.01; done; " + all + "; ";
      script += "wait $!; exit 137; fi; ";
    }
    return sinew::test::run_program(
        {SINEW_RUN, "-n", std::to_string(ranks), "--on-failure", "continue", "sh", "-c", script + "exec " + run});
  }

  /// The last loss of a run that nothing disturbs: of any layout.
  double undisturbed(const Strings& options = {}) const {
    Strings all{"--dtype", "f64", "--steps", kSteps, "--metrics", in("alone")};
    all.insert(all.end(), options.begin(), options.end());
    EXPECT_EQ(test::gpt(1, all).exit_code, 0);
    return last_loss(in("alone"));
  }

  /// A step that only others than the writer of the metrics have ended has no line there.
  void require_all_steps(double loss, int deaths = 1) const {
    const std::string metrics = content(in("m"));
    EXPECT_THAT(metrics, HasSubstr("\"step\":159"));
    EXPECT_GE(lines(metrics), std::stoi(kSteps) - deaths);
    EXPECT_NEAR(last_loss(in("m")) / loss, 1, 1e-9);
  }
};

/// The batch of 12 divides among 4, 3 and 2: the losses are those of any other run. Rank 0, which writes the metrics
/// and serves what it serves, dies too.
TEST_F(Elastic, GoesOnFromMemory_WhereParametersAreReplicated) {
  const auto o = kill(4, {{2, 20}, {0, 90}}, {});
  EXPECT_THAT(o.out, AllOf(HasSubstr("3 of 4 ranks go on with step"), HasSubstr("2 of 3 ranks go on with step")))
      << o.err;
  EXPECT_THAT(o.out, Not(HasSubstr("go on with step 0,")));
  EXPECT_THAT(o.err, HasSubstr("rank 2")) << o.err;
  require_all_steps(undisturbed(), 2);
}

/// From the other copy of what died, or from the checkpoint where that has seen one step more or less than the rest.
TEST_F(Elastic, GoesOnWhereShardsHaveCopies) {
  const auto o = kill(4, {{1, 20}}, {"--zero", "3", "--replicas", "2", "--save", in("c"), "--save-every", "10"});
  EXPECT_THAT(o.out, HasSubstr("3 of 4 ranks go on with step")) << o.err;
  require_all_steps(undisturbed());
}

TEST_F(Elastic, GoesOnFromTheLastCheckpoint_WhereAShardDied) {
  const auto o = kill(4, {{3, 30}}, {"--zero", "2", "--save", in("c"), "--save-every", "10"});
  EXPECT_THAT(o.out, HasSubstr("3 of 4 ranks go on with step")) << o.err;
  require_all_steps(undisturbed());
}

/// Before there is a checkpoint: from the beginning.
TEST_F(Elastic, BeginsAnew_WhereNothingWasSaved) {
  const auto o = kill(3, {{1, 2}}, {"--zero", "1", "--save", in("c"), "--save-every", "100000"});
  EXPECT_THAT(o.out, HasSubstr("2 of 3 ranks go on with step 0,")) << o.err;
  require_all_steps(undisturbed());
}

/// No checkpoint is there. The copy of the killed rank is at most a step old.
TEST_F(Elastic, GoesOnFromCopiesOfBuddies_WhereAShardDied) {
  for (const char* zero : {"1", "3"}) {
    const auto o = kill(4, {{3, 30}}, {"--zero", zero, "--buddy-copies", "1"});
    EXPECT_THAT(o.out, AllOf(HasSubstr("3 of 4 ranks go on with step"), Not(HasSubstr("go on with step 0,")))) << o.err;
    require_all_steps(undisturbed());
    std::remove(in("m").c_str());
  }
}

/// Rank 2 has the copy of rank 1. The checkpoint of a step before is left.
TEST_F(Elastic, GoesOnFromTheCheckpoint_WhereARankAndItsBuddyDie) {
  const auto o =
      kill_at_once(4, {1, 2}, 35, {"--zero", "3", "--buddy-copies", "1", "--save", in("c"), "--save-every", "10"});
  EXPECT_THAT(o.out, ContainsRegex("2 of 4 ranks go on with step [0-9]+0,")) << o.err;
  EXPECT_THAT(o.out, Not(HasSubstr("go on with step 0,")));
  require_all_steps(undisturbed(), 2);
}

/// Ranks 1 and 3 have their copies on ranks 2 and 0.
TEST_F(Elastic, GoesOnFromCopiesOfBuddies_WhereTwoOthersDie) {
  const auto o = kill_at_once(4, {1, 3}, 30, {"--zero", "3", "--buddy-copies", "1"});
  EXPECT_THAT(o.out, AllOf(HasSubstr("2 of 4 ranks go on with step"), Not(HasSubstr("go on with step 0,")))) << o.err;
  require_all_steps(undisturbed(), 2);
}

/// Three ranks are left for layers that are cut into two: one of them ends.
TEST_F(Elastic, LeavesOutWhomTheLayoutHasNoPlaceFor) {
  const auto o = kill(4, {{1, 20}}, {"--tp", "2", "--sp", "--save", in("c"), "--save-every", "10"});
  EXPECT_THAT(o.out, AllOf(HasSubstr("this one ends"), HasSubstr("2 of 4 ranks go on with step"))) << o.err;
  require_all_steps(undisturbed());
}

TEST_F(Elastic, TakesASmallerBatch_WhereTheRestCannotShareIt) {
  const auto o = kill(4, {{1, 20}}, {"--batch", "16"});
  EXPECT_THAT(o.out, HasSubstr("15 samples a step")) << o.err;
  EXPECT_THAT(content(in("m")), HasSubstr("\"step\":159"));
}

TEST_F(Elastic, IsRefused_WhereADeathWouldLoseAllAndNothingIsSaved) {
  const auto o = test::gpt(2, {"--elastic", "--zero", "1", "--steps", "2"});
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_THAT(o.err,
              AllOf(HasSubstr("--elastic"), HasSubstr("zero1"), HasSubstr("--save DIR"), HasSubstr("--buddy-copies")));
}

}  // namespace
}  // namespace gpt
