#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <support/run_program.hpp>
#include <support/scratch_folder.hpp>

namespace sinew::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Outcome run_example(const std::string& program, const std::string& ranks, const std::vector<std::string>& options = {},
                    const std::vector<std::string>& arguments = {}) {
  std::vector<std::string> command = {SINEW_RUN, "-n", ranks};
  command.insert(command.end(), options.begin(), options.end());
  command.push_back(program);
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_program(command);
}

TEST(Examples, ReduceOneNumberOfEachRank) {
  const Outcome o = run_example(ALL_REDUCE_EXAMPLE, "3");
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("rank 1 of 3: 3 3\n"));
}

TEST(Examples, TradeMessagesOnARing) {
  const Outcome o = run_example(MESSAGES_EXAMPLE, "4");
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("rank 0 between 3 and 1\n"));
  EXPECT_THAT(o.out, HasSubstr("rank 3 between 2 and 0\n"));
}

TEST(Examples, GiveWeightsToInferenceRanks) {
  const Outcome o = run_example(RESHARD_EXAMPLE, "7");
  EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
  EXPECT_THAT(o.out, HasSubstr("three steps: inference has the same weights as one rank\n"));
  EXPECT_EQ(run_example(RESHARD_EXAMPLE, "2").exit_code, 2);
}

TEST(Examples, ReduceOneNumberOfEachRank_InC) {
  const Outcome o = run_example(C_ALL_REDUCE_EXAMPLE, "3");
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("rank 1 of 3: 3 3\n"));
}

TEST(Examples, PassATokenAndSayWhoSendsNone_InC) {
  const Outcome o = run_example(C_RING_EXAMPLE, "3");
  EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
  EXPECT_THAT(o.out, HasSubstr("rank 0 received 20 from rank 2\n"));
  EXPECT_THAT(o.out, HasSubstr("rank 2 is told: Ok"));
  EXPECT_THAT(o.out, HasSubstr("rank 1: Timeout: "));
  EXPECT_THAT(o.out, HasSubstr("ring.c:"));
  EXPECT_THAT(o.out, HasSubstr("for no token"));
}

TEST(Examples, HeatFlowsTheSame_OnAnyNumberOfRanks_InC) {
  for (const char* ranks : {"1", "2", "3", "4"}) {
    const Outcome o = run_example(C_HEAT_EXAMPLE, ranks);
    EXPECT_EQ(o.exit_code, 0) << o.err;
    // An infinite rod has 100 * erfc(61 / (2 * sqrt(0.25 * 2000))) = 5.373 there.
    EXPECT_THAT(o.out, HasSubstr("after 2000 steps: 5.374853 in the middle, last change 0.012097\n")) << ranks;
  }
  const Outcome o = run_example(C_HEAT_EXAMPLE, "7");
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_THAT(o.err, HasSubstr("there are 7 ranks, expected a number that divides 120"));
}

TEST(Examples, SayHowTheyAreCalled) {
  for (const char* program : {MESH_EXAMPLE, OWN_ENGINE}) {
    const Outcome o = run_program({program, "--help"});
    EXPECT_EQ(o.exit_code, 0) << o.err;
    EXPECT_THAT(o.out, HasSubstr("usage: "));
  }
}

TEST(Examples, SayThatARingNeedsTwo) {
  const Outcome o = run_program({MESSAGES_EXAMPLE});
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_THAT(o.err, HasSubstr("start at least 2"));
}

TEST(Examples, SayWhatEachTransportLacks_WhenNoneConnectsThem) {
  const Outcome o = run_program({SINEW_RUN, "-n", "2", ALL_REDUCE_EXAMPLE}, {"SINEW_TRANSPORTS=inproc"});
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_THAT(o.err, AllOf(HasSubstr("no transport carries messages between rank 0 on "), HasSubstr("; inproc: ")));
}

TEST(Examples, SendTokensOfUnequalNumbers) {
  const Outcome o = run_example(TOKENS_EXAMPLE, "4");
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("rank 1 sent 4 tokens and has 4\n"));
  EXPECT_THAT(o.out, HasSubstr("rank 2 sent 5 tokens and has 5\n"));
}

TEST(Examples, RunAPlanAgainAndAgain) {
  const Outcome o = run_example(PLANS_EXAMPLE, "2");
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("takes"));
  EXPECT_THAT(o.out, HasSubstr("rank 1 ran it three times on shared memory of shm\n"));
}

/// The loss of the last step to six digits: the same under every row, however many ranks share the batch.
TEST(Examples, TrainTheSameUnderEveryRow) {
  const Outcome alone = run_program({OWN_ENGINE});
  EXPECT_EQ(alone.exit_code, 0) << alone.err;
  const std::string last = alone.out.substr(alone.out.find("step 199"));
  for (const char* row : {"ddp", "zero1", "zero2", "zero3"}) {
    const Outcome o = run_program({SINEW_RUN, "-n", "3", OWN_ENGINE, row});
    EXPECT_EQ(o.exit_code, 0) << row << o.err;
    EXPECT_THAT(o.out, HasSubstr(last)) << row;
  }
  EXPECT_EQ(run_program({OWN_ENGINE, "ddp", "zero1"}).exit_code, 2);
  EXPECT_THAT(run_program({OWN_ENGINE, "zero4"}).err, HasSubstr("expected one of ddp, zero1, zero2, zero3, hsdp"));
}

/// Losses and norms to ten digits: the same on one rank and under every layout of three axes, also beyond a checkpoint.
TEST(Examples, TrainAndEvaluateTheSame_OnThreeAxes) {
  const auto said = [](const Outcome& o, const std::string& what) {
    EXPECT_EQ(o.exit_code, 0) << o.err;
    const std::size_t at = o.out.find(what);
    EXPECT_NE(at, std::string::npos) << o.out;
    return o.out.substr(at, o.out.find('\n', at) - at - 2);  // without the last two digits
  };
  const Outcome alone = run_program({THREE_AXES, "ddp", "1", "1", "21"});
  const ScratchFolder folder;
  struct Layout {
    const char *ranks, *row, *tp, *pp;
  };
  for (const Layout& l : {Layout{"2", "zero3", "1", "1"},
                          {"2", "ddp", "2", "1"},
                          {"4", "zero1", "1", "4"},
                          {"4", "zero3", "1", "2"},
                          {"8", "zero3", "2", "2"}}) {
    const Outcome o = run_program({SINEW_RUN, "-n", l.ranks, THREE_AXES, l.row, l.tp, l.pp, "21"});
    for (const char* what : {"step 0 loss", "step 20 loss", "evaluation after step 21"})
      EXPECT_EQ(said(o, what), said(alone, what)) << l.ranks << l.row << l.tp << l.pp;
  }
  const std::string numbers = folder / "numbers";
  EXPECT_EQ(run_program({SINEW_RUN, "-n", "4", THREE_AXES, "zero3", "2", "2", "11", numbers}).exit_code, 0);
  const Outcome other = run_program({SINEW_RUN, "-n", "2", THREE_AXES, "zero1", "1", "1", "21", numbers});
  EXPECT_THAT(other.out, Not(HasSubstr("step 0 loss")));
  for (const char* what : {"step 20 loss", "evaluation after step 21"}) EXPECT_EQ(said(other, what), said(alone, what));
}

struct OfModules {
  const char *program, *ranks, *argument;  // the argument may be empty
};
void expect_the_losses_of_one_rank(const OfModules& all, const std::string& alone) {
  std::vector<std::string> arguments;
  if (*all.argument != 0) arguments.emplace_back(all.argument);
  const Outcome o = run_example(all.program, all.ranks, {"--no-prefix"}, arguments);
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_EQ(o.out, alone) << all.program << ' ' << all.ranks << ' ' << all.argument;
}

TEST(Examples, OfModules_PrintTheLossesOfOneRank) {
  for (const char* program :
       {MODULES_MLP_TP, MODULES_BLOCK_TP_SP, MODULES_MAMBA, MODULES_RING_ATTENTION, MODULES_MOE, MODULES_OWN_MODULE}) {
    const std::string alone = run_program({program}).out;
    EXPECT_THAT(alone, HasSubstr("step 0 loss"));
    for (const char* ranks : {"2", "3", "4"}) expect_the_losses_of_one_rank({program, ranks, ""}, alone);
  }
  const std::string tp = run_program({MODULES_FSDP_TP}).out, pp = run_program({MODULES_FSDP_PP, "1"}).out;
  for (const OfModules& all :
       {OfModules{MODULES_FSDP_TP, "2", "1"}, {MODULES_FSDP_TP, "3", "3"}, {MODULES_FSDP_TP, "6", "2"}})
    expect_the_losses_of_one_rank(all, tp);
  for (const OfModules& all :
       {OfModules{MODULES_FSDP_PP, "2", "1"}, {MODULES_FSDP_PP, "2", "2"}, {MODULES_FSDP_PP, "8", "4"}})
    expect_the_losses_of_one_rank(all, pp);
  const Outcome tight = run_example(MODULES_FSDP_PP, "4", {"--no-prefix"}, {"2", "5000"});
  EXPECT_EQ(tight.out, pp) << tight.err;
  EXPECT_THAT(tight.err, HasSubstr("1 of 2 stages of a rank at a time"));
  EXPECT_THAT(run_example(MODULES_FSDP_PP, "2", {}, {"2", "5"}).err, HasSubstr("a budget of 5 bytes"));
}

/// Order tp-cp-ep-dp-pp: of 8 ranks tp are neighbours, dp two apart, the second stage four further.
TEST(Examples, ArrangeRanksInAMesh) {
  const Outcome o = run_example(MESH_EXAMPLE, "8", {}, {"2", "2"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("rank 5: tp 1 of 2, dp 0 of 2, stage 1 of 2; its tp ranks sum to 9, dp to 12\n"));
  for (const std::vector<std::string>& odd : {std::vector<std::string>{"2x"}, {"3"}, {"1", "1", "1"}}) {
    EXPECT_EQ(run_example(MESH_EXAMPLE, "2", {}, odd).exit_code, 2) << odd[0];
  }
}

TEST(Examples, RedistributeTensors) {
  const Outcome o = run_example(PLACEMENTS_EXAMPLE, "4");
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_NE(o.out, "");
}

TEST(Examples, TrainWithTensorsThatCompute) {
  for (const char* ranks : {"1", "2", "3", "8"}) {
    const Outcome o = run_example(DISTRIBUTED_TENSOR_EXAMPLE, ranks);
    EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
    EXPECT_THAT(o.out, HasSubstr("on one rank: the same losses\n"));
  }
}

TEST(Examples, GoOnWithoutARankThatDied) {
  const Outcome o = run_example(SURVIVORS_EXAMPLE, "3", {"--on-failure", "continue"});
  EXPECT_THAT(o.out, HasSubstr("rank 0 of 2: the sum is 2\n"));
  EXPECT_THAT(o.out, HasSubstr("rank 1 of 2: the sum is 2\n"));
  EXPECT_THAT(o.err, HasSubstr("rank 2"));  // sinew-run names who died
}

}  // namespace
}  // namespace sinew::test
