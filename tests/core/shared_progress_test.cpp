#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/runtime/call_slab.hpp>
#include <sinew/core/work.hpp>

namespace sinew {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// Ends the calls that another thread has let go, but only when it is polled.
class EndsCalls final : public ProgressSource {
 public:
  explicit EndsCalls(std::size_t calls) : let_go_(calls) {}

  /// Under the lock.
  void add(std::size_t number, PendingCall& call) { calls_.push_back({number, &call}); }
  void let_go(std::size_t number) { let_go_[number].store(true, std::memory_order_release); }

  int progress() noexcept override {
    int events = 0;
    for (std::size_t i = 0; i < calls_.size();) {
      if (!let_go_[calls_[i].first].load(std::memory_order_acquire)) {
        ++i;
        continue;
      }
      PendingCall& call = *calls_[i].second;
      calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(i));
      call.finish({});
      ++events;
    }
    return events;
  }
  bool active() const noexcept override { return !calls_.empty(); }
  int wake_descriptor() const noexcept override { return -1; }
  bool arm() noexcept override { return calls_.empty(); }
  void disarm() noexcept override {}

 private:
  std::vector<std::atomic<bool>> let_go_;
  std::vector<std::pair<std::size_t, PendingCall*>> calls_;
};

class ThreadsThatShareProgress : public testing::Test {
 protected:
  ThreadsThatShareProgress() { engine_.add(source_); }
  ~ThreadsThatShareProgress() override { calls_.shared()->stop_thread(); }

  Work start(std::size_t number, bool waits_at_once = false) {
    const SharedProgress::Hold hold(calls_.shared());
    PendingCall& call = calls_.open([this](PendingCall& op) { op.owner = this; });
    source_.add(number, call);
    calls_.shared()->posted(waits_at_once);
    return Work(call);
  }

  Engine engine_{true};
  EndsCalls source_{100'000};
  CallSlab calls_{engine_, seconds(60), true};
};

TEST_F(ThreadsThatShareProgress, WakeEachWaiter_InWhateverOrderTheCallsEnd) {
  std::array<std::size_t, 3> order{0, 1, 2};
  std::size_t first = 0;
  do {
    std::array<std::atomic<int>, 3> ended{};
    std::vector<std::thread> waiting;
    for (std::size_t i = 0; i < 3; ++i) {
      waiting.emplace_back([&, i, work = start(first + i)]() mutable {
        if (work.wait(Deadline::after(seconds(30))).ok()) ended[i] = 1;
      });
    }
    std::this_thread::sleep_for(milliseconds(5));
    for (const std::size_t i : order) {
      source_.let_go(first + i);
      const auto begin = Clock::now();
      while (ended[i] == 0 && Clock::now() - begin < seconds(20)) std::this_thread::sleep_for(microseconds(50));
      EXPECT_EQ(ended[i], 1) << "call " << i << " ended, and its waiter sleeps on";
    }
    for (std::thread& t : waiting) t.join();
    first += 3;
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(ThreadsThatShareProgress, LetAnotherThreadStartCalls_WhileTheDriversOwnCallDoesNotEnd) {
  constexpr std::size_t kCalls = 5000;
  std::atomic<bool> over{false};
  std::thread driver([&, work = start(0)]() mutable {
    EXPECT_TRUE(work.wait(Deadline::after(seconds(60))).ok());
    over = true;
  });
  std::this_thread::sleep_for(milliseconds(5));
  for (std::size_t i = 1; i <= kCalls; ++i) {
    Work work = start(i);
    source_.let_go(i);
    ASSERT_TRUE(work.wait(Deadline::after(seconds(30))).ok()) << i;
  }
  EXPECT_FALSE(over);
  source_.let_go(0);
  driver.join();
}

TEST_F(ThreadsThatShareProgress, EndCallsThatNobodyWaitsFor_AndStartTheirFunctions) {
  calls_.shared()->start_thread();
  for (const auto pause : {milliseconds(0), milliseconds(20)}) {  // after 20 ms the thread sleeps deeply
    for (std::size_t i = 0; i < 20; ++i) {
      const std::size_t number = 100 * static_cast<std::size_t>(pause.count()) + i;
      std::this_thread::sleep_for(pause);
      std::promise<Code> ended;
      start(number).then([&ended](const Status& status) { ended.set_value(status.code()); });
      source_.let_go(number);
      auto result = ended.get_future();
      ASSERT_EQ(result.wait_for(seconds(30)), std::future_status::ready);
      EXPECT_EQ(result.get(), Code::Ok);
    }
  }
}

TEST_F(ThreadsThatShareProgress, RunAFunctionAtOnce_WhenTheCallHasEnded) {
  Work work = start(0);
  source_.let_go(0);
  ASSERT_TRUE(work.wait(Deadline::after(seconds(30))).ok());
  const auto self = std::this_thread::get_id();
  std::thread::id ran;
  work.then([&ran](const Status&) { ran = std::this_thread::get_id(); });
  EXPECT_EQ(ran, self);
}

TEST_F(ThreadsThatShareProgress, MayStartCallsInAFunction_AndWaitForThemThere) {
  calls_.shared()->start_thread();
  constexpr std::size_t kInFlight = 8;
  std::vector<std::future<void>> ended;
  for (std::size_t i = 0; i < kInFlight; ++i) {
    auto over = std::make_shared<std::promise<void>>();
    ended.push_back(over->get_future());
    start(i).then([this, i, over](const Status&) {
      Work second = start(100 + i);
      source_.let_go(100 + i);
      second.get();
      Work third = start(200 + i);
      source_.let_go(200 + i);
      third.then([over](const Status&) { over->set_value(); });
    });
  }
  for (std::size_t i = 0; i < kInFlight; ++i) source_.let_go(i);
  for (auto& e : ended) ASSERT_EQ(e.wait_for(seconds(30)), std::future_status::ready);
}

TEST_F(ThreadsThatShareProgress, ManyThreadsStartAndWait) {
  calls_.shared()->start_thread();
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kCalls = 2000;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      for (std::size_t i = 0; i < kCalls; ++i) {
        const std::size_t number = 1000 + t * kCalls + i;
        Work work = start(number, i % 2 == 0);
        source_.let_go(number);
        if (i % 7 != 0) work.get();  // else the Work is dropped
      }
    });
  }
  for (std::thread& t : threads) t.join();
  const auto none_left = [this] { return calls_.pending_of(this) == 0; };
  const SharedProgress::Hold hold(calls_.shared());
  EXPECT_TRUE(calls_.wait_until(none_left, Deadline::after(seconds(30))));
}

TEST(WaitAll, ReturnsTheFirstFailure_WhenAllHaveEnded) {
  Engine engine(true);
  CallSlab calls(engine, seconds(1), false);
  std::vector<PendingCall*> open;
  std::vector<Work> works(4);
  for (std::size_t i = 1; i < works.size(); ++i) {
    open.push_back(&calls.open([](PendingCall&) {}));
    works[i] = Work(*open.back());
  }
  open[0]->finish({});
  open[1]->finish({Code::Truncated, "first"});
  EXPECT_EQ(wait_all(works, Deadline::after(milliseconds(1))).code(), Code::Pending);
  open[2]->finish({Code::Aborted, "second"});
  EXPECT_EQ(wait_all(works).message(), "first");
}

}  // namespace
}  // namespace sinew
