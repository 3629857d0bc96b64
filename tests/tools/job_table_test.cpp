#include <algorithm>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/tools/common/progress.hpp>
#include <sinew/tools/info/jobs/job_table.hpp>

namespace sinew::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

WatchedJob job_of(int ranks) {
  WatchedJob job{.name = "processes started by 4711", .ranks = {}, .stuck = {}};
  for (int r = 0; r < ranks; ++r)
    job.ranks.push_back({.rank = r,
                         .process = 123456 + r,
                         .state = RankState::InCall,
                         .call = "all_reduce(f32, sum, count 1048576) at training/step.cpp:120 for bucket 3",
                         .communicator = "tensor_parallel of 8",
                         .for_s = 3.2,
                         .calls_per_s = 1234.5,
                         .bytes_per_s = 3.4e9});
  return job;
}

WatchedJob stuck_job(int ranks) {
  WatchedJob job = job_of(ranks);
  for (WatchedRank& r : job.ranks) r.waits_for = ranks - 1;
  job.ranks.back().waits_for.reset();
  job.ranks.back().state = RankState::Idle;
  job.ranks.back().delays = "not called";
  return job;
}

TEST(JobTable, FitsEveryWidthFrom40Characters) {
  for (std::size_t width = 40; width <= 250; ++width) {
    for (const WatchedJob& job : {job_of(3), stuck_job(12)}) {
      const std::vector<std::string> lines = lines_of(job_table(job, {.width = width}));
      ASSERT_EQ(lines.size(), job.ranks.size() + 2);
      for (const std::string& line : lines) EXPECT_LE(line.size(), width) << line;
    }
  }
}

TEST(JobTable, ShowsWhoIsLate_HoweverNarrow) {
  for (const std::size_t width : {40U, 60U, 80U, 0U}) {
    const std::string text = job_table(stuck_job(12), {.width = width});
    EXPECT_THAT(text, AllOf(HasSubstr("late: not called"), HasSubstr("waits for 11"), HasSubstr("calls/s"))) << width;
  }
}

TEST(JobTable, LeavesOutFirstWhatSaysLeast) {
  const auto heading = [](std::size_t width) { return lines_of(job_table(job_of(2), {.width = width})).at(1); };
  EXPECT_THAT(heading(0), AllOf(HasSubstr("process"), HasSubstr("communicator"), HasSubstr("bytes/s")));
  EXPECT_THAT(heading(70), AllOf(Not(HasSubstr("process")), HasSubstr("communicator"), HasSubstr("bytes/s")));
  EXPECT_THAT(heading(40), AllOf(HasSubstr("rank"), HasSubstr("calls/s"), HasSubstr("call"), Not(HasSubstr("comm"))));
}

TEST(JobTable, CutsNothingWithoutALimit) {
  const std::string text = job_table(job_of(2), {});
  EXPECT_THAT(text,
              AllOf(HasSubstr("processes started by 4711: 2 ranks, 2 in call\n"),
                    HasSubstr("123457  in call  3.2 s     1.2k  3.2 GiB  tensor_parallel of 8  all_reduce(f32, sum, "
                              "count 1048576) at training/step.cpp:120 for bucket 3\n"),
                    Not(HasSubstr("\x1b"))));
}

TEST(JobTable, ShowsRanksThatWaitFirst_WhereItIsLow) {
  WatchedJob job = job_of(100);
  job.ranks[77].state = RankState::Died;
  const std::vector<std::string> lines = lines_of(job_table(job, {.width = 80, .height = 10}));
  ASSERT_EQ(lines.size(), 10U);
  EXPECT_THAT(lines.back(), HasSubstr("93 more ranks"));
  EXPECT_TRUE(std::ranges::any_of(lines, [](const std::string& line) { return line.starts_with("  77"); }));
}

TEST(JobTable, ColoursRanksThatAreLate_WhereColoursAreWanted) {
  EXPECT_THAT(job_table(stuck_job(2), {.width = 80, .has_colour = true}),
              AllOf(HasSubstr("\x1b[31m"), HasSubstr("\x1b[33m")));
  EXPECT_THAT(job_table(stuck_job(2), {.width = 80}), Not(HasSubstr("\x1b")));
}

TEST(JobTable, WritesNumbersShort) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(12), "12");
  EXPECT_EQ(count_text(999.6), "1.0k");
  EXPECT_EQ(count_text(250'000), "250k");
  EXPECT_EQ(bytes_text(8), "8 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
}

TEST(RateOf, GoesOnWhereACounterGoesRound) {
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(rate_of(most - 4, 5, 2).value(), 5);
  EXPECT_EQ(rate_of(100, 300, 0.5).value(), 400);
}

TEST(RateOf, IsUnknownWhereACounterBeginsAnew) {
  EXPECT_FALSE(rate_of(1000, 3, 1));
  EXPECT_FALSE(rate_of(1000, 3000, 0));
}

TEST(Progress, TellsTheTimeThatIsLeft) {
  EXPECT_EQ(time_gone_and_left(12, 0), "12 s gone");
  EXPECT_EQ(time_gone_and_left(12, 0.25), "12 s gone, 36 s left");
  EXPECT_EQ(time_gone_and_left(900, 0.5), "15 min gone, 15 min left");
}

}  // namespace
}  // namespace sinew::tools
