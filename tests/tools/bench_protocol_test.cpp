#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/base/exchange.hpp>
#include <sinew/tools/bench/measurement/protocol.hpp>

namespace sinew::tools {
namespace {

/// Ranks that are threads.
class ThreadRanks : public Ranks {
 public:
  explicit ThreadRanks(Exchange exchange) : exchange_(std::move(exchange)) {}
  int rank() const noexcept override { return exchange_.rank; }
  int size() const noexcept override { return exchange_.size; }
  void meet() override { (void)exchange_.all_gather({}); }
  std::vector<double> gather(std::span<const double> mine) override {
    Bytes bytes(mine.size_bytes());
    std::memcpy(bytes.data(), mine.data(), bytes.size());
    std::vector<double> all;
    for (const Bytes& each : exchange_.all_gather(bytes)) {
      const std::size_t at = all.size();
      all.resize(at + mine.size());
      std::memcpy(all.data() + at, each.data(), each.size());
    }
    return all;
  }

 private:
  Exchange exchange_;
};

void spin(std::chrono::microseconds time) {
  const auto end = Clock::now() + time;
  while (Clock::now() < end) continue;
}

/// Copies input to output, as an all_reduce of one rank does, in so much time; spoils what it is told to.
class Copier : public Contestant {
 public:
  Copier(const BufferRing& ring, std::chrono::microseconds time, std::size_t wrong_from = SIZE_MAX)
      : ring_(ring), time_(time), wrong_from_(wrong_from) {}
  void run(std::size_t first_slot, std::size_t calls) override {
    batches.push_back(calls);
    for (std::size_t c = first_slot; c < first_slot + calls; ++c) {
      std::memcpy(ring_.out(c).data, ring_.in(c).data, ring_.in(c).bytes);
      if (++made >= wrong_from_) ring_.out(c).data[0] ^= std::byte{1};
      spin(time_);
    }
  }
  std::size_t made = 0;
  std::vector<std::size_t> batches;

 private:
  const BufferRing& ring_;
  std::chrono::microseconds time_;
  std::size_t wrong_from_;
};

struct Rig {
  explicit Rig(std::uint64_t elements = 16, std::size_t most_slots = 1000)
      : ranks(exchange_alone()),
        noise(ranks, {0}, false),
        data(data_of(*find_case("all_reduce"), 0, 1, elements)),
        ring(data, 4, false, most_slots, 1 << 20, ordinary_memory),
        rows(DType::F32, ReduceOp::Sum, true, 1),
        work(data, 4, ring, rows, true) {
    options.least_s = 0.01;
  }
  Measurement measured(Contestant& ours, Contestant* peer = nullptr) {
    return measure(options, ranks, noise, work, ring.slots(), ours, peer);
  }

  ThreadRanks ranks;
  NoiseGauge noise;
  RankData data;
  BufferRing ring;
  check::ExactRows rows;
  Workload work;
  ProtocolOptions options;
};

TEST(BenchProtocol, TakesTheMedianOfTimesPerCall) {
  Rig s;
  Copier ours(s.ring, std::chrono::microseconds(50));
  const Measurement m = s.measured(ours);
  EXPECT_GE(m.ours.seconds, 50e-6);
  EXPECT_GE(m.ours.p99_seconds, 50e-6);
  EXPECT_GE(m.ours.calls_per_batch, 1u);
  EXPECT_LE(m.ours.calls_per_batch, 5u);
  EXPECT_EQ(m.wrong, 0u);
  EXPECT_FALSE(m.peer);
}

TEST(BenchProtocol, MakesOneCallPerBatch_WhereItIsLong) {
  Rig s;
  Copier ours(s.ring, std::chrono::microseconds(1000));
  const Measurement m = s.measured(ours);
  EXPECT_EQ(m.ours.calls_per_batch, 1u);
  EXPECT_GE(ours.made, s.options.warmup + s.options.iterations);
}

TEST(BenchProtocol, ChecksOneCallAndTimesNothing_WithoutIterations) {
  for (const std::size_t warmup : {0, 3}) {
    Rig s;
    s.options.iterations = 0;
    s.options.warmup = warmup;
    Copier ours(s.ring, std::chrono::microseconds(0), 1);
    Copier peer(s.ring, std::chrono::microseconds(0));
    const Measurement m = s.measured(ours, &peer);
    EXPECT_FALSE(m.timed);
    EXPECT_EQ(ours.made, std::max<std::size_t>(warmup, 1));
    EXPECT_EQ(peer.made, ours.made);
    EXPECT_EQ(m.wrong, 1u);
    EXPECT_EQ(m.peer_wrong, 0u);
    EXPECT_FALSE(m.noisy);
  }
}

TEST(BenchProtocol, NeverUsesASlotTwiceInABatch) {
  Rig s(16, 7);
  Copier ours(s.ring, std::chrono::microseconds(0));
  EXPECT_LE(s.measured(ours).ours.calls_per_batch, 7u);
  EXPECT_LE(*std::ranges::max_element(ours.batches), 7u);
}

TEST(BenchProtocol, MeasuresThePeerInTurns) {
  Rig s;
  Copier ours(s.ring, std::chrono::microseconds(30));
  Copier peer(s.ring, std::chrono::microseconds(90));
  const Measurement m = s.measured(ours, &peer);
  ASSERT_TRUE(m.peer);
  EXPECT_GE(m.peer->seconds, 90e-6);
  EXPECT_EQ(m.wrong + m.peer_wrong, 0u);
  EXPECT_GE(peer.batches.size(), s.options.least_batches);
}

TEST(BenchProtocol, CountsWrongElements_OfOursAndThePeerApart) {
  Rig s;
  Copier ours(s.ring, std::chrono::microseconds(20));
  Copier peer(s.ring, std::chrono::microseconds(20), 1);
  const Measurement m = s.measured(ours, &peer);
  EXPECT_EQ(m.wrong, 0u);
  EXPECT_EQ(m.peer_wrong, peer.made - (s.options.warmup - 1));  // the calls that only warm up are not looked at

  Rig t;
  Copier late(t.ring, std::chrono::microseconds(20), 40);
  EXPECT_GT(t.measured(late).wrong, 0u);
}

/// Remembers what the output was when it was asked to work: a contestant that does nothing is found out.
class Idler : public Contestant {
 public:
  void run(std::size_t, std::size_t) override {}
};

TEST(BenchProtocol, FindsStaleResults) {
  Rig s;
  Idler ours;
  EXPECT_GT(s.measured(ours).wrong, 0u);
}

TEST(BenchProtocol, CountsTheSlowestRank) {
  auto exchanges = thread_exchanges(2, std::chrono::seconds(60));
  std::vector<Measurement> measured(2);
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < 2; ++r) {
      threads.emplace_back([&, r] {
        Rig s;
        ThreadRanks ranks(exchanges[r]);
        NoiseGauge noise(ranks, {0, 1}, false);
        Copier ours(s.ring, std::chrono::microseconds(r == 0 ? 300 : 900));
        measured[r] = measure(s.options, ranks, noise, s.work, s.ring.slots(), ours, nullptr);
      });
    }
  }
  EXPECT_GE(measured[0].ours.seconds, 900e-6);
  EXPECT_EQ(measured[0].ours.seconds, measured[1].ours.seconds);
  EXPECT_EQ(measured[0].ours.p99_seconds, measured[1].ours.p99_seconds);
}

TEST(BenchProtocol, LeavesBuffersAlone_WhenTheyAreWarm) {
  Rig s(16, 1);
  s.options.warm_buffers = true;
  Copier ours(s.ring, std::chrono::microseconds(1));
  const Measurement m = s.measured(ours);
  EXPECT_GT(m.ours.calls_per_batch, 1u);
  EXPECT_EQ(m.wrong, 0u);
}

TEST(BenchStatistics, MedianAndQuantile) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 2, 3}), 2.5);
  std::vector<double> hundred;
  for (int i = 100; i >= 1; --i) hundred.push_back(i);
  EXPECT_DOUBLE_EQ(quantile(hundred, 0.99), 99);
  EXPECT_DOUBLE_EQ(quantile({5}, 0.99), 5);
  EXPECT_DOUBLE_EQ(quantile({1, 2}, 0.99), 2);
}

TEST(BenchProtocol, CountsALineAsSpoilt_WhereMoreThanAQuarterOfItsBatchesWereDelayed) {
  EXPECT_FALSE(delays_spoil(0, 1));
  EXPECT_TRUE(delays_spoil(1, 1));
  EXPECT_FALSE(delays_spoil(2, 11));
  EXPECT_TRUE(delays_spoil(3, 11));
}

TEST(BenchNoise, CountsWhatOthersTook) {
  CpuCounts before;
  before.cores = 4;
  CpuCounts after = before;
  after.wall_s = 10;
  after.idle_s = 19;
  EXPECT_NEAR(outside_share(before, after, 20), 0.025 - 0.0005, 1e-9);
  after.idle_s = 20;
  EXPECT_DOUBLE_EQ(outside_share(before, after, 20), 0);
  EXPECT_DOUBLE_EQ(outside_share(before, before, 0), 0);
}

TEST(BenchNoise, SeesAProcessThatTakesACore) {
  if (sysconf(_SC_NPROCESSORS_ONLN) > 32) GTEST_SKIP() << "one core is less than 2 % of this machine";
  ThreadRanks ranks(exchange_alone());
  NoiseGauge gauge(ranks, {0}, true);
  const pid_t hog = fork();
  if (hog == 0) {
    for (;;) spin(std::chrono::milliseconds(1));
  }
  gauge.begin_span();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_TRUE(gauge.span_was_noisy());
  kill(hog, SIGKILL);
  waitpid(hog, nullptr, 0);
}

/// What ranks read, by rank: before and after a span.
using Readings = std::vector<std::array<CpuCounts, 2>>;

/// On two cores that are never idle.
CpuCounts busy(double wall_s, double own_s) { return {wall_s, 0, own_s, 2}; }

bool is_noisy(const Readings& readings, const std::vector<int>& accounted) {
  auto exchanges = thread_exchanges(static_cast<int>(readings.size()), std::chrono::seconds(60));
  std::vector<char> noisy(readings.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < readings.size(); ++r) {
      threads.emplace_back([&, r] {
        ThreadRanks ranks(exchanges[r]);
        std::size_t next = 0;
        NoiseGauge gauge(ranks, accounted, false, [&] { return readings[r].at(next++); });
        gauge.begin_span();
        noisy[r] = gauge.span_was_noisy() ? 1 : 0;
      });
    }
  }
  EXPECT_EQ(std::ranges::count(noisy, noisy.front()), std::ssize(noisy));  // all hear the same
  return noisy.front() != 0;
}

/// Rank 1 gets a core half a second before rank 0 does; what the process does in that time is not in rank 0's span.
TEST(BenchNoise, CountsAProcessOnce_WhoseThreadsBeginOneAfterTheOther) {
  const Readings alone = {{busy(0.5, 1), busy(2, 4)}, {busy(0, 0), busy(2, 4)}};
  EXPECT_FALSE(is_noisy(alone, {0}));
  EXPECT_GT(outside_share(alone[1][0], alone[1][1], 3), kNoiseShare);  // rank 1's span would be a noisy one
  Readings crowded = alone;
  crowded[0][1].own_s = crowded[1][1].own_s = 2.5;  // another process had one of the cores
  EXPECT_TRUE(is_noisy(crowded, {0}));
}

TEST(BenchNoise, AddsUpWhatTheProcessesOfAHostTook) {
  const Readings alone = {{busy(0, 0), busy(2, 2)}, {busy(0, 0), busy(2, 2)}};
  EXPECT_FALSE(is_noisy(alone, {0, 1}));
  Readings crowded = alone;
  crowded[1][1].own_s = 1;
  EXPECT_TRUE(is_noisy(crowded, {0, 1}));
}

/// A job whose threads take each other's cores.
TEST(BenchNoise, LeavesRunQueuesAlone_WhereRanksOutnumberCores) {
  ThreadRanks ranks(exchange_alone());
  const RunQueueDelay delay;
  const auto was_delayed = [&](bool fits) {
    NoiseGauge gauge(ranks, {0}, fits);
    const auto time = std::chrono::milliseconds(300);
    std::vector<std::jthread> crowd;
    for (long i = 0; i < 4 * sysconf(_SC_NPROCESSORS_ONLN); ++i) crowd.emplace_back([=] { spin(time); });
    gauge.begin_batch();
    spin(time);
    return gauge.batch_was_delayed(0.3);
  };
  EXPECT_FALSE(was_delayed(false));
  if (delay.read().delay_s == 0) GTEST_SKIP() << "this kernel does not count what waits for a core";
  EXPECT_TRUE(was_delayed(true));
}

TEST(BenchNoise, BlamesNobodyForWakingUp) {
  EXPECT_TRUE(displaced({0, 3}, {0.03, 4}, 1, kNoiseShare));
  EXPECT_FALSE(displaced({0, 3}, {0.01, 4}, 1, kNoiseShare));
  EXPECT_FALSE(displaced({0, 3}, {0.03, 3}, 1, kNoiseShare));
}

TEST(BenchNoise, CountsThisThreadsPreemptions) {
  const RunQueueDelay delay;
  const Displacement before = delay.read();
  const auto end = Clock::now() + std::chrono::milliseconds(50);
  while (Clock::now() < end) sched_yield();
  const Displacement after = delay.read();
  EXPECT_GE(after.delay_s, before.delay_s);
  EXPECT_GE(after.preemptions, before.preemptions);
}

TEST(BenchNoise, DoesNotCountTheJobsOwnTime) {
  const CpuCounts before = read_cpu_counts();
  spin(std::chrono::milliseconds(100));
  const CpuCounts after = read_cpu_counts();
  const double own = after.own_s - before.own_s;
  EXPECT_GT(own, 0);
  EXPECT_LE(outside_share(before, after, own), outside_share(before, after, 0));
}

}  // namespace
}  // namespace sinew::tools
