#include <chrono>

#include <gtest/gtest.h>

#include <sinew/core/host/quota_pace.hpp>

namespace sinew {
namespace {

using namespace std::chrono_literals;

/// A thread whose clocks go as the test says.
struct PlayedThread {
  QuotaPace pace;
  Clock::time_point now = Clock::time_point(1h);
  Duration cpu{};
  Duration rested{};
  Duration longest{};

  explicit PlayedThread(double share_cores) : pace(share_cores) { look(); }
  void look() {
    const Duration rest = pace.owed(now, cpu);
    now += rest;
    rested += rest;
    longest = std::max(longest, rest);
  }
  void work(Duration time) {
    now += time;
    cpu += time;
    look();
  }
  void sleep(Duration time) {
    now += time;
    look();
  }
};

TEST(QuotaPace, KeepsBelowTheShare_WhereCallFollowsCall) {
  for (const double share : {0.25, 0.5, 0.75}) {
    PlayedThread thread(share);
    const auto begin = thread.now;
    while (thread.now - begin < 4s) thread.work(8us);
    const double used = std::chrono::duration<double>(thread.cpu) / (thread.now - begin);
    EXPECT_LT(used, share * 0.9);
    EXPECT_GT(used, share * 0.8) << "and does not rest for nothing";
    EXPECT_LE(thread.longest, 4ms) << "nobody stands still for long";
  }
}

TEST(QuotaPace, NeverRests_WhileTheShareIsNotUsedUp) {
  PlayedThread thread(0.5);
  for (int call = 0; call < 10'000; ++call) {
    thread.work(20us);
    thread.sleep(30us);
  }
  EXPECT_EQ(thread.rested, 0s);
}

TEST(QuotaPace, LeavesOutWhatAProgramComputesBetweenItsCalls) {
  PlayedThread thread(0.5);
  for (int step = 0; step < 100; ++step) {
    thread.work(5ms);
    thread.work(10us);
    thread.sleep(10us);
  }
  EXPECT_LT(thread.rested, 2ms);
}

TEST(QuotaPace, SavesUpLittle_HoweverLongTheRankHasSlept) {
  PlayedThread thread(0.5);
  thread.sleep(1h);
  const Duration before = thread.cpu;
  while (thread.rested == 0s) thread.work(8us);
  EXPECT_LT(thread.cpu - before, 4ms);
}

TEST(QuotaPace, BearsAClockThatGoesBack_WhenAnotherThreadWaits) {
  PlayedThread thread(0.5);
  thread.work(100us);
  thread.cpu = 1us;
  thread.sleep(10us);
  thread.work(10us);
  EXPECT_EQ(thread.rested, 0s);
}

}  // namespace
}  // namespace sinew
