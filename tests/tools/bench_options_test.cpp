// The options of sinew-bench that come from nccl-tests.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench_job.hpp"

namespace sinew::test {
namespace {

using testing::HasSubstr;

TEST(SinewBenchOptions, SaysWhatIsWrongWithOptionsOfNcclTests) {
  const auto complaint = [](const Words& arguments) {
    const Outcome outcome = bench(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
    return outcome.err;
  };
  for (const char* flag : {"-g", "-t"}) {
    EXPECT_THAT(complaint({"all_reduce", flag, "4"}),
                HasSubstr(std::string(flag) + ": '4': expected 1, because each rank is a process of its own"));
    EXPECT_THAT(complaint({"all_reduce", flag, "4"}), HasSubstr("sinew-run -n 4 sinew-bench"));
    EXPECT_THAT(complaint({"all_reduce", flag, "0"}), HasSubstr("expected 1"));
    EXPECT_THAT(complaint({"all_reduce", flag, "two"}), HasSubstr("'two': expected 1"));
    EXPECT_THAT(complaint({"all_reduce", flag}), HasSubstr("1 required 1 missing"));
  }
  EXPECT_THAT(complaint({"all_reduce", "-i", "0"}), HasSubstr("-i: '0': expected a step of 1 byte or more"));
  EXPECT_THAT(complaint({"all_reduce", "-i", "some"}), HasSubstr("'some': expected a size in bytes such as 8, 4KiB"));
  EXPECT_THAT(complaint({"all_reduce", "-i", "8", "-f", "2"}), HasSubstr("-i: expected no -f beside it"));
  EXPECT_THAT(complaint({"all_reduce", "-i", "1", "-b", "0", "-e", "1GiB"}),
              HasSubstr("-i: 1B: 1073741825 sizes from 0B to 1GiB, expected 1000000 at most"));
  EXPECT_THAT(complaint({"broadcast", "-r", "1"}),
              HasSubstr("-r: 1: expected all, or a rank from 0 to 0, as the job has 1 rank\n"));
  for (const char* root : {"-2", "1x", "99999999999", "every"}) {
    EXPECT_THAT(complaint({"broadcast", "-r", root}),
                HasSubstr("expected all, or a rank: a whole number, 0 to 2147483647"));
  }
  EXPECT_THAT(complaint({"all_reduce", "-r", "1"}), HasSubstr("-r: 1: expected none, as all_reduce has no root"));
  EXPECT_THAT(complaint({"all_reduce", "-d", "f32", "-o", "all", "--codec", "int8", "-c", "3"}),
              HasSubstr("'3': expected 0 or 1"));
  EXPECT_THAT(complaint({"broadcast", "-d", "all", "--codec", "int8"}), HasSubstr("--codec: broadcast is not coded"));
  EXPECT_THAT(complaint({"tune", "-n", "0"}), HasSubstr("-n: '0': expected 1 or more, as tune compares times"));
  EXPECT_THAT(complaint({"tune", "-d", "all"}), HasSubstr("--dtype: tune has no such option"));
  EXPECT_THAT(complaint({"tune", "-r", "0"}), HasSubstr("--root: tune has no such option"));
}

TEST(SinewBenchOptions, StepsThroughSizes) {
  const Job steps = two_ranks({"all_reduce", "-b", "8", "-e", "44", "-i", "16", "-n", "0", "-g", "1", "-t", "1"});
  ASSERT_EQ(steps.lines.size(), 3u) << steps.outcome.err;
  EXPECT_EQ(steps.lines[1]["bytes"], 24);
  EXPECT_EQ(steps.lines[2]["bytes"], 40);
}

TEST(SinewBenchOptions, TimesNothing_ButChecks_WithoutIterations) {
  const Job job = two_ranks({"all_reduce", "-b", "64", "-e", "64", "-n", "0"});
  EXPECT_EQ(job.outcome.exit_code, 0) << job.outcome.err;
  ASSERT_EQ(job.lines.size(), 1u);
  EXPECT_EQ(members(job.lines[0]), kMembers);
  for (const char* figure : {"time_us", "time_us_p99", "algbw_GBps", "busbw_GBps"}) {
    EXPECT_TRUE(job.lines[0][figure].is_null()) << figure;
  }
  EXPECT_EQ(job.lines[0]["wrong"], 0);
  EXPECT_THAT(job.outcome.out, HasSubstr("nothing is timed"));
  EXPECT_THAT(job.outcome.out, HasSubstr("# Avg bus bandwidth    : N/A"));
}

TEST(SinewBenchOptions, GoesThroughAllRoots_AndEachIsRight) {
  for (const char* what : {"broadcast", "reduce", "gather", "scatter"}) {
    for (const bool in_place : {false, true}) {
      if (in_place && std::string_view(what) == "broadcast") continue;
      Words arguments = {what, "-b", "4KiB", "-e", "4KiB", "-r", "all", "-n", "0"};
      if (in_place) arguments.emplace_back("--in-place");
      const Job job = job_of({SINEW_RUN, "-n", "3"}, arguments);
      EXPECT_EQ(job.outcome.exit_code, 0) << what << job.outcome.err;
      ASSERT_EQ(job.lines.size(), 3u) << what << job.outcome.err;
      for (int root = 0; root < 3; ++root) {
        EXPECT_EQ(job.lines[static_cast<std::size_t>(root)]["root"], root) << what;
        EXPECT_EQ(job.lines[static_cast<std::size_t>(root)]["wrong"], 0) << what << " of " << root;
      }
    }
  }
  const Job one = job_of({SINEW_RUN, "-n", "3"}, {"broadcast", "-b", "64", "-e", "64", "-r", "2", "-n", "1"});
  ASSERT_EQ(one.lines.size(), 1u) << one.outcome.err;
  EXPECT_EQ(one.lines[0]["root"], 2);
  EXPECT_EQ(one.lines[0]["wrong"], 0);
  const Job none = two_ranks({"all_reduce", "-b", "64", "-e", "64", "-r", "-1", "-n", "0"});
  ASSERT_EQ(none.lines.size(), 1u) << "there is no root to go through: " << none.outcome.err;
  EXPECT_FALSE(none.lines[0].contains("root"));
}

TEST(SinewBenchOptions, GoesThroughAllTypesAndOperators_ThatGoTogether) {
  const Job job = two_ranks({"all_reduce", "-b", "1KiB", "-e", "1KiB", "-d", "all", "-o", "all", "-n", "0"});
  EXPECT_EQ(job.outcome.exit_code, 0) << job.outcome.err;
  std::map<std::string, std::set<std::string>> ops;
  for (const json& line : job.lines) {
    EXPECT_EQ(line["wrong"], 0) << line;
    EXPECT_TRUE(ops[line["dtype"]].insert(line["op"]).second) << "twice: " << line;
  }
  EXPECT_EQ(ops.size(), 15u);
  for (const auto& [dtype, found] : ops) {
    EXPECT_TRUE(found.contains("sum")) << dtype;
    EXPECT_EQ(found.contains("avg"), dtype != "bool") << dtype;
    EXPECT_EQ(found.contains("band"), dtype == "bool" || dtype.starts_with("i") || dtype.starts_with("u")) << dtype;
  }
  const Job invariant = two_ranks({"reduce_scatter", "-b", "1KiB", "-e", "1KiB", "-d", "f32", "-o", "all", "-n", "0",
                                   "--determinism", "layout_invariant"});
  EXPECT_EQ(invariant.outcome.exit_code, 0) << "averages cannot be: " << invariant.outcome.err;
  EXPECT_EQ(invariant.lines.size(), 4u);
  const Job plain = two_ranks({"all_gather", "-b", "64", "-e", "64", "-d", "all", "-o", "all", "-n", "0"});
  ASSERT_EQ(plain.lines.size(), 15u) << plain.outcome.err;
  for (const json& line : plain.lines) EXPECT_EQ(line["op"], "none");
}

}  // namespace
}  // namespace sinew::test
