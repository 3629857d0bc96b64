#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/trace/clock_difference.hpp>
#include <sinew/collectives/trace/job_trace.hpp>
#include <support/log_guard.hpp>
#include <support/scratch_folder.hpp>

#include "written_log.hpp"

namespace sinew {
namespace {

using test::kMs;
using test::ScratchFolder;
using test::sum_of;
using test::WrittenLog;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kBegin = 1000 * kMs;

/// Ranks of one job that write logs.
class Job {
 public:
  Job(const ScratchFolder& folder, int ranks, std::vector<std::int64_t> ahead = {}) : folder_(folder / ".") {
    ahead.resize(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r) {
      ranks_.push_back(std::make_unique<WrittenLog>(
          folder_, LogOwner{.rank = r,
                            .ranks = ranks,
                            .job = 5,
                            .ahead_ns = ahead[static_cast<std::size_t>(r)],
                            .ahead_error_ns = ahead[static_cast<std::size_t>(r)] == 0 ? 0 : 20'000}));
    }
  }
  WrittenLog& operator[](std::size_t rank) { return *ranks_[rank]; }
  /// Rank r comes `late[r]` after the others; the call ends a millisecond after the last came.
  void call(std::uint32_t sequence, const std::vector<std::int64_t>& late, std::uint32_t plan = 0) {
    const std::int64_t at = kBegin + sequence * 100 * kMs;
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      ranks_[r]->call(sequence, at + late[r], at + *std::ranges::max_element(late) + kMs, plan);
  }
  JobLogs logs() const { return std::move(logs_in_folder(folder_).jobs.front()); }

 private:
  std::string folder_;
  std::vector<std::unique_ptr<WrittenLog>> ranks_;
};

TEST(JobTrace, NamesTheRankThatIsMostOftenLast) {
  const ScratchFolder folder;
  Job job(folder, 4);
  std::uint32_t ring = 0;
  for (std::size_t r = 0; r < 4; ++r) ring = job[r].plan(500e-6, 16, "ring", "shm");
  for (std::uint32_t s = 1; s <= 9; ++s) job.call(s, {0, 0, s % 3 == 0 ? 0 : 4 * kMs, 2 * kMs}, ring);
  const JobTrace trace = trace_of(job.logs());
  ASSERT_EQ(trace.communicators.size(), 1U);
  EXPECT_THAT(trace.communicators[0].world_ranks, ElementsAre(0, 1, 2, 3));
  ASSERT_EQ(trace.communicators[0].calls.size(), 1U);
  const CallStats& s = trace.communicators[0].calls[0];
  EXPECT_EQ(s.collective, Collective::AllReduce);
  EXPECT_EQ(s.dtype, DType::F32);
  EXPECT_EQ(s.bytes, 16U);
  EXPECT_EQ(s.calls, 9U);
  EXPECT_EQ(s.judged, 9U);
  EXPECT_EQ(s.last_rank, 2);
  EXPECT_EQ(s.last_calls, 6U);
  EXPECT_NEAR(s.time_median, 1e-3, 1e-9);
  EXPECT_NEAR(s.skew_median, 4e-3, 1e-9);
  EXPECT_NEAR(s.skew_worst, 4e-3, 1e-9);
  EXPECT_NEAR(s.busbw, 16 / 1e-3 * 1.5, 1);
  EXPECT_NEAR(s.measured_by_predicted(), 2, 1e-6);
  EXPECT_EQ(s.algorithm, "ring");
  EXPECT_EQ(trace.calls, 36U);
  EXPECT_EQ(trace.unfinished_calls, 0U);
  EXPECT_EQ(trace.clock_error, 0);
}

TEST(JobTrace, BringsClocksOfTwoHostsTogether) {
  const ScratchFolder folder;
  Job job(folder, 2, {0, -5000 * kMs});
  for (std::uint32_t s = 60; s <= 63; ++s) job.call(s, {0, 3 * kMs});
  const JobTrace trace = trace_of(job.logs());
  const CallStats& s = trace.communicators.at(0).calls.at(0);
  EXPECT_EQ(s.judged, 4U);
  EXPECT_EQ(s.last_rank, 1);
  EXPECT_NEAR(s.skew_median, 3e-3, 1e-9);
  EXPECT_EQ(trace.clock_error, 20'000);
}

TEST(JobTrace, NamesCallsThatNeverEnded_AndWhoNeverCame) {
  const ScratchFolder folder;
  Job job(folder, 3);
  job.call(1, {0, 0, 0});
  job[0].enter(2, kBegin + 300 * kMs);
  job[1].enter(2, kBegin + 301 * kMs);
  job[2].enter(1, kBegin + 302 * kMs, fingerprint_of({.collective = Collective::Recv, .count = 8}), 0);
  const JobTrace trace = trace_of(job.logs());
  EXPECT_EQ(trace.unfinished_calls, 2U);
  EXPECT_EQ(trace.communicators.at(0).calls.at(0).calls, 1U);
  const auto& message = trace.unfinished.at(0);
  EXPECT_EQ(message.call, "recv(u8, count 8) at train.cpp:12, with rank 0");
  EXPECT_THAT(message.waiting, ElementsAre(2));
  const auto& call = trace.unfinished.at(1);
  EXPECT_EQ(call.sequence, 2U);
  EXPECT_EQ(call.call, "all_reduce(f32, sum, count 4) at train.cpp:12");
  EXPECT_THAT(call.waiting, ElementsAre(0, 1));
  EXPECT_THAT(call.absent, ElementsAre(2));
}

TEST(JobTrace, JudgesWithoutTheRankWhoseLogIsMissing) {
  const ScratchFolder folder;
  Job job(folder, 3);
  for (std::uint32_t s = 1; s <= 5; ++s) job.call(s, {0, kMs, 2 * kMs});
  std::filesystem::remove(job[2].path());
  const JobLogs logs = job.logs();
  EXPECT_THAT(logs.missing, ElementsAre(2));
  const JobTrace trace = trace_of(logs);
  EXPECT_EQ(trace.communicators.at(0).calls.at(0).judged, 5U);
  EXPECT_EQ(trace.communicators.at(0).calls.at(0).last_rank, 1);
}

TEST(JobTrace, JudgesAsFarAsTheShortestLogGoes) {
  const ScratchFolder folder;
  Job job(folder, 2);
  for (std::uint32_t s = 1; s <= 5; ++s) job.call(s, {0, kMs});
  for (std::uint32_t s = 6; s <= 9; ++s) job[0].call(s, kBegin + s * 100 * kMs, kBegin + s * 100 * kMs + kMs);
  const JobTrace trace = trace_of(job.logs());
  EXPECT_EQ(trace.communicators.at(0).calls.at(0).calls, 9U);
  EXPECT_EQ(trace.communicators.at(0).calls.at(0).judged, 5U);
  EXPECT_EQ(trace.unfinished_calls, 0U);
}

TEST(JobTrace, CountsCallsThatFailed_WithoutJudgingThem) {
  const ScratchFolder folder;
  Job job(folder, 2);
  job.call(1, {0, 0});
  for (std::size_t r = 0; r < 2; ++r) job[r].call(2, kBegin + 900 * kMs, kBegin + 950 * kMs, 0, Code::PeerLost);
  const JobTrace trace = trace_of(job.logs());
  EXPECT_EQ(trace.communicators.at(0).calls.at(0).calls, 2U);
  EXPECT_EQ(trace.communicators.at(0).calls.at(0).failed, 1U);
  EXPECT_EQ(trace.communicators.at(0).calls.at(0).judged, 1U);
}

TEST(JobTrace, SumsUpMessages_WithoutASkew) {
  const ScratchFolder folder;
  Job job(folder, 2);
  const Fingerprint send = fingerprint_of({.collective = Collective::Send, .count = 1000});
  for (int i = 0; i < 3; ++i) job[0].call(0, kBegin + i * kMs, kBegin + (i + 1) * kMs, 0, Code::Ok, send, 1);
  const CallStats s = trace_of(job.logs()).communicators.at(0).calls.at(0);
  EXPECT_EQ(s.collective, Collective::Send);
  EXPECT_EQ(s.bytes, 1000U);
  EXPECT_EQ(s.judged, 3U);
  EXPECT_EQ(s.last_rank, -1);
  EXPECT_NEAR(s.time_median, 1e-3, 1e-9);
}

TEST(FolderLogs, TellsJobsApart_TheLatestFirst_AndRefusesWhatIsNone) {
  const ScratchFolder folder;
  { const WrittenLog old(folder / ".", {.rank = 1, .ranks = 2, .job = 1}); }
  { const WrittenLog later(folder / ".", {.rank = 0, .ranks = 1, .job = 2}); }
  std::ofstream(folder / "sinew-0-rank-7.calls") << "no log";
  std::ofstream(folder / "sinew-0-rank-0.trace") << "of sinew-info hang";
  const FolderLogs found = logs_in_folder(folder / ".");
  ASSERT_EQ(found.jobs.size(), 2U);
  EXPECT_EQ(found.jobs[0].ranks, 1);
  EXPECT_THAT(found.jobs[0].missing, IsEmpty());
  EXPECT_THAT(found.jobs[1].missing, ElementsAre(0));
  ASSERT_EQ(found.refused.size(), 1U);
  EXPECT_THAT(found.refused[0], HasSubstr("rank-7.calls: is shorter than the header of one"));
}

TEST(ClockDifference, IsBetweenWhatTheRoundsAllow) {
  // Rank 1 is a second ahead and comes late, rank 2's clock was set meanwhile.
  std::vector<std::vector<ClockReading>> readings(3);
  for (int round = 0; round < 8; ++round) {
    const std::int64_t last = round * 10 * kMs;
    readings[0].push_back({last - kMs, last + kMs});
    readings[1].push_back({last + 1000 * kMs, last + 1002 * kMs});
    readings[2].push_back({last + round * 1000 * kMs, last + round * 1000 * kMs + kMs});
  }
  const ClockDifference zero = difference_of(std::span(readings).first(2), 0),
                        one = difference_of(std::span(readings).first(2), 1);
  EXPECT_EQ(zero.ahead_ns, 0);
  EXPECT_EQ(zero.error_ns, 0);
  EXPECT_LE(std::abs(one.ahead_ns - 1000 * kMs), one.error_ns);
  EXPECT_LE(one.error_ns, 2 * kMs);
  EXPECT_EQ(zero.worst_error_ns, one.error_ns);
  EXPECT_LT(difference_of(readings, 2).error_ns, 0);
  EXPECT_LT(difference_of(readings, 1).worst_error_ns, 0);
}

TEST(ClockDifference, IsMeasuredWhereClocksDiffer_AndNothingIsExchangedElsewhere) {
  std::vector<ControlPeer> peers(2);
  const Exchange none{0, 2, [](const Bytes&) -> std::vector<Bytes> { throw Error(Code::System, "an exchange"); }};
  EXPECT_EQ(compare_clocks(none, peers).worst_error_ns, 0) << "nobody times calls";
  peers[0].clock = peers[1].clock = "one";
  EXPECT_EQ(compare_clocks(none, peers).worst_error_ns, 0);
  peers[1].clock = "another";
  auto exchanges = thread_exchanges(2, std::chrono::seconds(30));
  ClockDifference other;
  std::thread second([&] { other = compare_clocks(exchanges[1], peers); });
  const ClockDifference mine = compare_clocks(exchanges[0], peers);
  second.join();
  EXPECT_EQ(mine.ahead_ns, 0);
  EXPECT_GT(other.error_ns, 0);
  EXPECT_EQ(mine.worst_error_ns, other.error_ns);
  EXPECT_LE(std::abs(other.ahead_ns), other.error_ns) << "it is one clock";
}

}  // namespace
}  // namespace sinew
