#include <latch>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/trace/call_history.hpp>
#include <sinew/collectives/trace/job_trace.hpp>
#include <support/log_guard.hpp>
#include <support/scratch_folder.hpp>
#include <support/worlds.hpp>

#include "file_limit.hpp"

namespace sinew::test {
namespace {

using testing::HasSubstr;

constexpr int kRanks = 3;
constexpr int kCalls = 12;

WorldOptions timed(Threads threads = Threads::Single) {
  WorldOptions options = only("inproc");
  options.config.time_calls = true;
  options.threads = threads;
  return options;
}

/// Sums in which rank 1 comes when all others have.
void be_late(World& world, std::vector<std::unique_ptr<std::latch>>& others) {
  for (auto& came : others) {
    std::vector<float> data(100, 1);
    if (world.rank() == 1) came->wait();
    Work sum = world.communicator().all_reduce(data);
    if (world.rank() != 1) came->count_down();
    sum.get();
  }
}

std::vector<std::unique_ptr<std::latch>> latches() {
  std::vector<std::unique_ptr<std::latch>> all;
  for (int i = 0; i < kCalls; ++i) all.push_back(std::make_unique<std::latch>(kRanks - 1));
  return all;
}

const CallStats& row_of(const CommunicatorStats& stats, Collective collective, std::uint64_t bytes) {
  for (const CallStats& s : stats.calls) {
    if (s.collective == collective && s.bytes == bytes) return s;
  }
  throw Error(Code::InvalidArgument, "no such row");
}

TEST(Stats, NameTheRankThatIsLate) {
  for (const Threads threads : {Threads::Single, Threads::Multiple}) {
    auto others = latches();
    on_threads(kRanks, timed(threads), [&](World& world) {
      be_late(world, others);
      for (int twice = 0; twice < 2; ++twice) {
        const CommunicatorStats stats = world.communicator().stats();
        require(stats.calls.size() == 1, "its own calls are not counted");
        const CallStats& s = row_of(stats, Collective::AllReduce, 400);
        require(s.calls == kCalls && s.judged == kCalls && s.failed == 0, "all calls");
        require(s.last_rank == 1 && s.last_calls == kCalls, "rank 1 is last: " + to_text(stats.calls));
        require(s.skew_worst >= s.skew_median && s.skew_median > 0, "a skew");
        require(s.time_median > 0 && s.busbw > 0 && s.predicted > 0 && s.total > 0, "times");
        require(!s.algorithm.empty() && s.transport == "inproc", "a way");
        require(stats.clock_error == 0, "one clock");
      }
    });
  }
}

TEST(Stats, AreOfEachCommunicator_AndOfMessages) {
  on_threads(2, timed(), [](World& world) {
    Communicator half = world.communicator().split(0);
    std::vector<float> data(10, 1);
    half.all_reduce(data).get();
    if (world.rank() == 0) half.send(data, 1).get();
    if (world.rank() == 1) half.recv(data, 0).get();
    const CommunicatorStats stats = half.stats();
    require(stats.calls.size() == 2, "a sum and a message: " + to_text(stats.calls));
    const CallStats& message = row_of(stats, world.rank() == 0 ? Collective::Send : Collective::Recv, 40);
    require(message.calls == 1 && message.last_rank == -1 && message.time_median > 0, "no skew");
  });
}

TEST(Stats, AreOfOneRankAlone) {
  on_threads(1, timed(), [](World& world) {
    std::vector<float> data(10, 1);
    world.communicator().all_reduce(data).get();
    const CommunicatorStats stats = world.communicator().stats();
    require(row_of(stats, Collective::AllReduce, 40).last_rank == -1, "nobody is late");
  });
}

TEST(Stats, SayWhoKeepsNone) {
  on_threads(2, only("inproc"), [](World& world) {
    try {
      static_cast<void>(world.communicator().stats());
    } catch (const Error& e) {
      require(e.code() == Code::Unavailable && std::string(e.what()).find("SINEW_STATS=1") != std::string::npos,
              e.what());
      std::vector<float> data(10, 1);
      world.communicator().all_reduce(data).get();
      return;
    }
    require(false, "an error");
  });
}

TEST(Stats, SumAllCalls_AndJudgeTheLatest) {
  CallHistory history(1);
  constexpr std::uint32_t kAll = CallHistory::kLatest + 100;
  for (std::uint32_t i = 1; i <= kAll; ++i)
    history.add({{Collective::AllReduce, DType::F32, 8}, i, i * 1000, i * 1000 + 10}, nullptr);
  const std::vector<std::vector<TimedCall>> everybody{history.latest(0)};
  EXPECT_EQ(everybody[0].size(), CallHistory::kLatest);
  EXPECT_EQ(everybody[0].front().sequence, 101);
  const CallStats s = history.stats(everybody, 0).at(0);
  EXPECT_EQ(s.calls, kAll);
  EXPECT_EQ(s.judged, CallHistory::kLatest);
  EXPECT_NEAR(s.total, kAll * 10e-9, 1e-12);
  EXPECT_NEAR(s.time_median, 10e-9, 1e-12);
}

TEST(Stats, PutSizesTogether_WhenThereAreTooMany) {
  CallHistory history(1);
  constexpr std::uint32_t kAll = 10 * CallHistory::kMostSizes;
  for (std::uint32_t i = 1; i <= kAll; ++i)
    history.add({{Collective::AllReduce, DType::F32, i}, i, i * 1000, i * 1000 + 10}, nullptr);
  const std::vector<std::vector<TimedCall>> everybody{history.latest(0)};
  const std::vector<CallStats> rows = history.stats(everybody, 0);
  EXPECT_LE(rows.size(), CallHistory::kMostSizes + 64);
  std::uint64_t calls = 0;
  for (const CallStats& s : rows) calls += s.calls;
  EXPECT_EQ(calls, kAll);
  EXPECT_EQ(rows.back().bytes, 16384U);
  EXPECT_EQ(rows.back().judged, CallHistory::kLatest);
}

TEST(Stats, TakeNoCallThatAnotherRankHasForgotten) {
  CallHistory history(2);
  for (std::uint32_t i = 1; i <= 4; ++i)
    history.add({{Collective::AllReduce, DType::F32, 8}, i, i * 1000, i * 1000 + 10}, nullptr);
  const std::vector<std::vector<TimedCall>> everybody{history.latest(0), {{3, 3005, 3010}, {9, 9000, 9001}}};
  const CallStats s = history.stats(everybody, 0).at(0);
  EXPECT_EQ(s.judged, 1U);
  EXPECT_EQ(s.last_rank, 1);
  EXPECT_NEAR(s.skew_median, 5e-9, 1e-12);
}

TEST(Trace, HasWhatAWorldHasCalled) {
  const ScratchFolder folder;
  WorldOptions options = only("inproc");
  options.config.trace_dir = folder / ".";
  auto others = latches();
  on_threads(kRanks, options, [&](World& world) { be_late(world, others); });
  const FolderLogs found = logs_in_folder(folder / ".");
  ASSERT_EQ(found.jobs.size(), 1U);
  EXPECT_THAT(found.jobs[0].missing, testing::IsEmpty());
  for (const RankLog& log : found.jobs[0].logs) EXPECT_TRUE(log.about().closed);
  const JobTrace trace = trace_of(found.jobs[0]);
  const CallStats& s = trace.communicators.at(0).calls.at(0);
  EXPECT_EQ(s.judged, static_cast<std::uint64_t>(kCalls));
  EXPECT_EQ(s.last_rank, 1);
  EXPECT_EQ(s.last_calls, static_cast<std::uint64_t>(kCalls));
  EXPECT_EQ(s.transport, "inproc");
  EXPECT_GT(s.predicted, 0);
  EXPECT_EQ(trace.unfinished_calls, 0U);
}

TEST(Trace, LetsAJobGoOn_WhereTheDiskIsFull) {
  const ScratchFolder folder;
  WorldOptions options = only("inproc");
  options.config.trace_dir = folder / ".";
  ExpectLog warnings(log::Level::Warning, "the job goes on");
  std::unique_ptr<FileLimit> limit;
  constexpr std::uint64_t kMany = 5000;
  on_threads(2, options, [&](World& world) {
    world.communicator().barrier().get();
    if (world.rank() == 0) limit = std::make_unique<FileLimit>(300 << 10);
    std::vector<float> data(1, 1);
    for (std::uint64_t i = 0; i < kMany; ++i) world.communicator().all_reduce(data).get();
  });
  limit.reset();
  EXPECT_EQ(warnings.lines().size(), 2U) << "each rank once";
  const FolderLogs found = logs_in_folder(folder / ".");
  for (const RankLog& log : found.jobs.at(0).logs) {
    EXPECT_NE(log.about().truncated, 0);
    EXPECT_GE(log.about().calls + log.about().lost, kMany);
  }
}

}  // namespace
}  // namespace sinew::test
