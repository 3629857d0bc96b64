#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.hpp"

namespace gpt::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Strings operator+(Strings a, const Strings& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Strings kSkipping{"--dtype", "f64", "--layers", "2", "--loss-scale", "dynamic", "--overflow-at", "5,1,3"};

TEST_F(Program, SaysWhichStepsItSkips) {
  const Outcome o = gpt(2, kSkipping + Strings{"--steps", "7", "--zero", "3", "--metrics", in("m")});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, AllOf(HasSubstr("scale 65536 skipped 0\n"), HasSubstr("scale 65536 skipped 1\n"),
                           HasSubstr("scale 8192 skipped 3\n")));
  EXPECT_THAT(content(in("m")),
              AllOf(HasSubstr(R"("loss_scale":65536.0)"), HasSubstr(R"("skipped":true,"skipped_steps":1)"),
                    HasSubstr(R"("skipped":false,"skipped_steps":3)"), HasSubstr(R"("norm":null)")));
  EXPECT_EQ(lines(content(in("m"))), 7);
  const Outcome none = gpt(1, {"--steps", "2", "--metrics", in("none")});
  EXPECT_THAT(none.out, Not(HasSubstr("skipped")));
  EXPECT_THAT(content(in("none")), Not(HasSubstr("skipped")));
}

/// Layers cut over ranks, stages, sequences and shards: one infinity on one rank, and the losses of one process.
TEST_F(Program, HasTheLossesOfOneProcess_WhereStepsAreSkipped) {
  const auto loss = [&](int ranks, const Strings& options) {
    const Outcome o = gpt(ranks, kSkipping + options + Strings{"--steps", "8", "--metrics", in("m")});
    EXPECT_EQ(o.exit_code, 0) << o.err;
    EXPECT_THAT(o.out, HasSubstr("skipped 3")) << ::testing::PrintToString(options);
    EXPECT_NEAR(percent_of_predicted(o.out), 100, kPercentOff) << o.out;
    return last_loss(in("m"));
  };
  const double whole = loss(1, {});
  EXPECT_GT(whole, 1);
  for (const auto& [ranks, layout] : std::vector<std::pair<int, Strings>>{{2, {"--tp", "2"}},
                                                                          {4, {"--tp", "2", "--sp", "--zero", "3"}},
                                                                          {3, {"--zero", "2", "--micro-batches", "2"}},
                                                                          {4, {"--cp", "2", "--zero", "1"}},
                                                                          {4, {"--zero", "3", "--replicas", "2"}}})
    EXPECT_NEAR(loss(ranks, layout) / whole, 1, 1e-12) << ::testing::PrintToString(layout);
  const Outcome pipeline = gpt(4, kSkipping + Strings{"--pp", "2", "--tp", "2", "--micro-batches", "4", "--schedule",
                                                      "zb-h1", "--steps", "8", "--metrics", in("m")});
  EXPECT_EQ(pipeline.exit_code, 0) << pipeline.err;
  EXPECT_NEAR(last_loss(in("m")) / whole, 1, 1e-12);
}

/// Saved after two skipped steps, and gone on with under another layout: the scale, the count and the optimizer's steps
/// are those of a run without a break.
TEST_F(Program, GoesOnWithTheScaleThatItSaved) {
  ASSERT_EQ(gpt(1, kSkipping + Strings{"--steps", "8", "--metrics", in("whole")}).exit_code, 0);
  const Outcome saved =
      gpt(4, kSkipping + Strings{"--steps", "8", "--tp", "2", "--zero", "3", "--save", in("c"), "--save-every", "4"});
  ASSERT_EQ(saved.exit_code, 0) << saved.err;
  ASSERT_GT(std::filesystem::remove_all(in("c/step-000008")), 0U);
  const Outcome rest =
      gpt(3, kSkipping + Strings{"--steps", "8", "--zero", "1", "--resume", in("c"), "--metrics", in("rest")});
  EXPECT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_THAT(rest.out, AllOf(HasSubstr("going on with step 4"), HasSubstr("scale 16384 skipped 2\n"),
                              HasSubstr("scale 8192 skipped 3\n")));
  EXPECT_NEAR(last_loss(in("rest")) / last_loss(in("whole")), 1, 1e-12);
}

/// 16-bit parameters whose gradients travel in 8 bits: what the codec keeps of the overflow spoils no later step.
TEST_F(Program, LearnsOn_AfterOverflowsWithACodec) {
  for (const char* zero : {"0", "1", "2", "3"}) {
    const auto loss_after = [&](const char* steps) {
      const Outcome o =
          gpt(2, {"--dtype", "bf16", "--codec", "int8", "--error-feedback", "--zero", zero, "--rate", "0.01",
                  "--loss-scale", "dynamic", "--overflow-at", "0,7,8", "--steps", steps, "--metrics", in("m")});
      EXPECT_EQ(o.exit_code, 0) << o.err;
      return last_loss(in("m"));
    };
    EXPECT_GT(loss_after("2"), 5);
    EXPECT_LT(loss_after("40"), 4) << "zero " << zero;
  }
}

/// A run that scales goes on from one that did not, and the other way.
TEST_F(Program, BeginsToScaleAnew_WhereTheCheckpointHasNoScale) {
  ASSERT_EQ(gpt(1, {"--steps", "2", "--save", in("c")}).exit_code, 0);
  const Outcome scaled = gpt(1, {"--steps", "4", "--resume", in("c"), "--save", in("d"), "--loss-scale", "dynamic"});
  EXPECT_EQ(scaled.exit_code, 0) << scaled.err;
  EXPECT_THAT(scaled.out, HasSubstr("scale 65536 skipped 0"));
  const Outcome plain = gpt(1, {"--steps", "6", "--resume", in("d"), "--loss-scale", "none"});
  EXPECT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_THAT(plain.out, AllOf(HasSubstr("going on with step 4"), Not(HasSubstr("skipped"))));
}

TEST_F(Program, EndsAtAnOverflow_WithoutAScale) {
  for (const int ranks : {1, 2}) {
    const Outcome o = gpt(ranks, {"--steps", "3", "--overflow-at", "1"});
    EXPECT_EQ(o.exit_code, 1) << o.out;
    EXPECT_THAT(o.err, HasSubstr("step 1: loss"));
  }
  const Outcome fixed = gpt(2, {"--steps", "3", "--overflow-at", "1", "--loss-scale", "1000"});
  EXPECT_EQ(fixed.exit_code, 0) << fixed.err;
  EXPECT_THAT(fixed.out, HasSubstr("scale 1000 skipped 1"));
}

TEST_F(Program, SaysWhatIsNoLossScale) {
  const auto complaint = [&](const Strings& options) {
    const Outcome o = gpt(1, options);
    EXPECT_EQ(o.exit_code, 2) << o.err;
    return o.err;
  };
  for (const char* wrong : {"0", "-2", "inf", "1e999", "dynamical", "4x"})
    EXPECT_EQ(complaint({"--loss-scale", wrong}),
              std::string("gpt: --loss-scale: '") + wrong + "': expected dynamic, none, or a number above 0\n");
  for (const char* wrong : {"x", "1,-2", "1.5", "3,,4"})
    EXPECT_EQ(complaint({"--overflow-at", wrong}),
              std::string("gpt: --overflow-at: '") + wrong +
                  "': expected numbers of steps, 0 to 1099511627776, such as 3 or 3,7\n");
}

}  // namespace
}  // namespace gpt::test
