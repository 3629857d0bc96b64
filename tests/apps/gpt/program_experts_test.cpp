#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.hpp"

namespace gpt::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Experts go to other ranks than they came from, biases to all.
TEST_F(Program, GoesOnWithExperts_UnderAnotherLayout) {
  const Strings model{"--experts", "4", "--top-k", "2", "--balance", "0.01", "--balance-bias", "0.01"};
  const auto with = [&](Strings more) {
    more.insert(more.begin(), model.begin(), model.end());
    return more;
  };
  const auto losses = [&](int ranks, Strings options, const std::string& name) {
    options.insert(options.end(), {"--dtype", "f64", "--metrics", in(name)});
    const Outcome o = gpt(ranks, options);
    EXPECT_EQ(o.exit_code, 0) << o.err;
    return last_loss(in(name));
  };
  const double whole = losses(1, with({"--steps", "6"}), "whole");
  losses(4, with({"--steps", "3", "--ep", "4", "--save", in("c")}), "half");
  EXPECT_NEAR(
      losses(4, with({"--ep", "2", "--etp", "2", "--zero", "3", "--steps", "6", "--resume", in("c")}), "a") / whole, 1,
      1e-12);
  EXPECT_NEAR(losses(2, with({"--tp", "2", "--sp", "--zero", "1", "--steps", "6", "--resume", in("c")}), "b") / whole,
              1, 1e-12);
}

/// The rows of a rank's experts vary from step to step. A capacity of 1 lets no expert have more than its share.
TEST_F(Program, HoldsWhatWasPredicted_WhileTheRowsOfExpertsVary) {
  const Outcome o = gpt(2, {"--experts", "4", "--ep", "2", "--capacity", "1", "--steps", "20"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_NEAR(percent_of_predicted(o.out), 100, kPercentOff) << o.out;
}

TEST_F(Program, SaysWhatExpertsCannotHave) {
  const auto complaint = [&](int ranks, const Strings& options) {
    const Outcome o = gpt(ranks, options);
    EXPECT_EQ(o.exit_code, 2) << o.err;
    return o.err;
  };
  EXPECT_THAT(complaint(1, {"--experts", "4", "--top-k", "5"}), HasSubstr("experts for each token 5, expected 1 to 4"));
  EXPECT_THAT(complaint(1, {"--experts", "6", "--router-groups", "4"}), HasSubstr("groups 4 do not divide experts 6"));
  EXPECT_THAT(complaint(1, {"--experts", "4", "--capacity", "-1"}), HasSubstr("capacity -1, expected 0 or more"));
  EXPECT_THAT(complaint(2, {"--ep", "2"}), HasSubstr("engine_axes: ep 2"));
  EXPECT_THAT(complaint(4, {"--experts", "2", "--ep", "4"}),
              HasSubstr("expert_parts: ep 4, and a layer has 2 experts"));
  EXPECT_THAT(complaint(8, {"--experts", "2", "--ep", "4", "--tp", "2", "--batch", "16"}),
              AllOf(HasSubstr("breaks 2 rules"), HasSubstr("expert_parts: "), HasSubstr("expert_tokens: ")));
  EXPECT_THAT(complaint(2, {"--experts", "2", "--tp", "2"}),
              AllOf(HasSubstr("tp 2 without sequence parallelism"), HasSubstr("expected sequence-parallel")));
}

TEST_F(Program, NamesARoutersLogitThatIsNoNumber) {
  const Outcome o =
      gpt(2, {"--experts", "4", "--ep", "2", "--steps", "5", "--rate", "1e30", "--clip", "0", "--warmup", "0"});
  EXPECT_NE(o.exit_code, 0) << o.out;
  EXPECT_THAT(o.err, AllOf(HasSubstr("blocks.0.experts.router"), HasSubstr("is no number: expected finite logits")));
}

}  // namespace
}  // namespace gpt::test
