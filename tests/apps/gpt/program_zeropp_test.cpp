#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.hpp"

namespace gpt::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Strings joined(Strings a, const Strings& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// gpt with all parts of ZeRO++, on hosts of so many ranks.
Strings zeropp(const char* near) { return {"--zero", "3", "--weights", "int8", "--int4", "--near", near}; }

/// The losses of all steps of a run.
std::vector<double> losses(int ranks, const Strings& options, const std::string& metrics) {
  const Outcome o = gpt(ranks, joined(options, {"--metrics", metrics}));
  EXPECT_EQ(o.exit_code, 0) << o.err;
  std::vector<double> all;
  const std::string text = content(metrics), name = "\"loss\":";
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1))
    all.push_back(std::stod(text.substr(at + name.size())));
  return all;
}

/// One host, two hosts, and ranks that each have a host of their own. Quantised sums differ between these layouts.
TEST_F(Program, LearnsWithZeroPlusPlus_NearlyAsWithZero3) {
  for (const Strings& types : {Strings{"--dtype", "f32"}, {"--dtype", "bf16", "--gradient-dtype", "bf16"}}) {
    const Strings run = joined(types, {"--steps", "30", "--rate", "0.01"});
    const std::vector<double> plain = losses(4, joined(run, {"--zero", "3"}), in("plain"));
    ASSERT_EQ(plain.size(), 30U);
    EXPECT_LT(plain.back(), 0.8 * plain.front());
    for (const char* near : {"1", "2", "4"}) {
      const std::vector<double> quantised = losses(4, joined(run, zeropp(near)), in("quantised"));
      ASSERT_EQ(quantised.size(), plain.size());
      EXPECT_NE(quantised, plain) << "nothing was quantised";
      for (std::size_t s = 0; s < plain.size(); ++s)
        EXPECT_NEAR(quantised[s] / plain[s], 1, 0.05) << types[1] << ", step " << s << ", near ranks " << near;
    }
  }
}

TEST_F(Program, HasTheSameBitsInEveryRun_WithZeroPlusPlus) {
  const Strings run = joined(zeropp("2"), {"--steps", "10", "--layers", "2"});
  const std::vector<double> first = losses(4, run, in("first"));
  EXPECT_EQ(first.size(), 10U);
  EXPECT_EQ(losses(4, run, in("second")), first);
  EXPECT_NE(losses(4, joined(run, {"--seed", "7"}), in("other")), first);
}

/// A pipeline, micro-batches, several copies and a scaled loss that overflows once.
TEST_F(Program, CombinesZeroPlusPlusWithOtherLayouts) {
  struct Case {
    int ranks;
    const char* near;
    Strings layout;
  };
  for (const auto& [ranks, near, layout] :
       {Case{4, "1", {"--pp", "2", "--layers", "2", "--micro-batches", "2"}},
        {8, "2", {"--replicas", "2", "--batch", "16"}},
        {4, "2", {"--micro-batches", "3", "--loss-scale", "dynamic", "--overflow-at", "2"}}}) {
    const Strings run = joined(layout, {"--steps", "8"});
    const std::vector<double> plain = losses(ranks, joined(run, {"--zero", "3"}), in("plain"));
    const std::vector<double> quantised = losses(ranks, joined(run, zeropp(near)), in("quantised"));
    ASSERT_EQ(quantised.size(), 8U) << layout.front();
    EXPECT_NE(quantised, plain) << layout.front();
    for (std::size_t s = 0; s < plain.size(); ++s) EXPECT_NEAR(quantised[s] / plain[s], 1, 0.02) << layout.front();
  }
}

TEST_F(Program, SaysWhereZeroPlusPlusCannotBe) {
  const auto complaint = [&](const Strings& options) {
    const Outcome o = gpt(4, joined(options, {"--steps", "2"}));
    EXPECT_EQ(o.exit_code, 2) << o.err;
    // The launcher's summary repeats it behind " | ".
    EXPECT_EQ(o.err.find("] gpt:"), o.err.rfind("] gpt:")) << "one rank complains: " << o.err;
    return o.err;
  };
  EXPECT_THAT(
      complaint(joined(zeropp("2"), {"--zero", "2"})),
      AllOf(HasSubstr("breaks 3 rules"),
            HasSubstr("weights int8 with zero 2, which keeps whole parameters; expected weights plain or zero 3"),
            HasSubstr("gradients int4 with zero 2"), HasSubstr("2 near ranks with zero 2")));
  EXPECT_THAT(complaint(zeropp("3")), HasSubstr("3 near ranks, of 4 that shard; expected near_ranks 2"));
  EXPECT_THAT(complaint(joined(zeropp("2"), {"--codec", "int8"})),
              HasSubstr("gradients int4 and codec int8, of which one can be"));
  EXPECT_THAT(complaint({"--zero", "3", "--weights", "int4"}),
              HasSubstr("gpt: --weights: 'int4': expected one of int8, plain"));
}

}  // namespace
}  // namespace gpt::test
