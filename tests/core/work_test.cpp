#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/runtime/call_slab.hpp>
#include <sinew/core/work.hpp>

namespace sinew {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// As with Threads::Multiple: this thread starts calls and waits, another one ends them.
class WorkOfAnotherThread : public testing::Test {
 protected:
  PendingCall& open() {
    const SharedProgress::Hold hold(calls_.shared());
    return calls_.open([this](PendingCall& op) { op.owner = this; });
  }
  void finish(PendingCall& op, Status status = {}) {
    const SharedProgress::Hold hold(calls_.shared());
    op.finish(std::move(status));
  }

  Engine engine_{true};
  CallSlab calls_{engine_, seconds(60), true};
};

TEST_F(WorkOfAnotherThread, WaitEndsWithPending_AtItsDeadline_AndMayBeRepeated) {
  PendingCall& op = open();
  Work work(op);
  const auto begin = Clock::now();
  EXPECT_EQ(work.wait(Deadline::after(milliseconds(30))).code(), Code::Pending);
  EXPECT_GE(Clock::now() - begin, milliseconds(30));
  finish(op);
  EXPECT_TRUE(work.wait().ok());
}

TEST_F(WorkOfAnotherThread, WaitEndsAtOnce_WhenTheCallDoes) {
  PendingCall& op = open();
  Work work(op);
  std::thread driver([&] {
    std::this_thread::sleep_for(milliseconds(30));
    finish(op, {Code::Truncated, "as planned"});
  });
  EXPECT_EQ(work.wait(Deadline::after(seconds(60))).message(), "as planned");
  driver.join();
}

TEST_F(WorkOfAnotherThread, AnExceptionThatDestroysItWaitsForTheCall) {
  PendingCall& op = open();
  std::atomic<bool> ended{false};
  std::thread driver([&] {
    std::this_thread::sleep_for(milliseconds(30));
    ended = true;
    finish(op);
  });
  try {
    const Work work(op);
    throw 7;
  } catch (int) {
    EXPECT_TRUE(ended) << "the buffers may be gone now";
  }
  driver.join();
}

TEST_F(WorkOfAnotherThread, WaitSleeps) {
  PendingCall& op = open();
  Work work(op);
  rusage before{};
  rusage after{};
  ::getrusage(RUSAGE_THREAD, &before);
  EXPECT_EQ(work.wait(Deadline::after(milliseconds(200))).code(), Code::Pending);
  ::getrusage(RUSAGE_THREAD, &after);
  EXPECT_LT(after.ru_nvcsw - before.ru_nvcsw, 400) << "it woke that often in 200 ms";
  finish(op);
}

TEST_F(WorkOfAnotherThread, EveryWaitIsWoken) {
  constexpr int kCalls = 4;
  std::vector<PendingCall*> ops;
  std::vector<std::thread> waiting;
  std::atomic<int> ended{0};
  for (int i = 0; i < kCalls; ++i) ops.push_back(&open());
  for (PendingCall* op : ops) {
    waiting.emplace_back([&ended, work = Work(*op)]() mutable {
      if (work.wait(Deadline::after(seconds(60))).ok()) ++ended;
    });
  }
  std::this_thread::sleep_for(milliseconds(20));
  for (PendingCall* op : ops) finish(*op);
  for (std::thread& t : waiting) t.join();
  EXPECT_EQ(ended, kCalls);
}

TEST_F(WorkOfAnotherThread, CallsArePendingOnlyOnceTheyAreFilled) {
  constexpr int kCalls = 1000;
  std::atomic<bool> over{false};
  std::atomic<int> strange{0};
  std::thread driver([&] {
    while (!over) {
      const SharedProgress::Hold hold(calls_.shared());
      std::vector<PendingCall*> pending;
      calls_.for_each_pending([&](PendingCall& op) {
        if (op.owner != this || op.sequence == 0) ++strange;
        pending.push_back(&op);
      });
      for (PendingCall* op : pending) op->finish({});
    }
  });
  for (std::uint32_t i = 1; i <= kCalls; ++i) {
    const auto fill = [this, i](PendingCall& op) {
      op.owner = nullptr;
      op.sequence = i;
      op.owner = this;
    };
    Work work;
    {
      const SharedProgress::Hold hold(calls_.shared());
      work = Work(calls_.open(fill));
    }
    if (i % 3 != 0) work.get();  // else abandoned
  }
  const auto pending = [this] {
    const SharedProgress::Hold hold(calls_.shared());
    return calls_.pending_of(this);
  };
  while (pending() > 0) std::this_thread::yield();
  over = true;
  driver.join();
  EXPECT_EQ(strange, 0);
}

TEST_F(WorkOfAnotherThread, ForksChildDropsItsWork_WhileAThreadOfTheParentHoldsTheLock) {
  PendingCall& op = open();
  Work work(op);
  std::atomic<bool> held{false};
  std::atomic<bool> over{false};
  std::thread holder([&] {
    const SharedProgress::Hold hold(calls_.shared());
    held = true;
    while (!over) std::this_thread::sleep_for(milliseconds(1));
  });
  while (!held) std::this_thread::yield();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);  // ends a child that waits for the lock
    work.name_site("train.py:12");
    work = Work();
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  over = true;
  holder.join();
  EXPECT_EQ(status, 0);
  finish(op);
}

TEST(Work, PlacesAreUsedAgain_AndStayWhereTheyAre) {
  Engine engine(true);
  CallSlab calls(engine, seconds(1), false);
  const auto open = [&calls]() -> PendingCall& { return calls.open([](PendingCall&) {}); };
  PendingCall& first = open();
  const std::uint32_t serial = first.serial;
  {
    const Work work(first);
    first.finish({Code::Timeout, "late"});
  }
  PendingCall& again = open();
  EXPECT_EQ(&again, &first);
  EXPECT_NE(again.serial, serial);
  EXPECT_TRUE(again.status.ok());
  Work held(again);
  std::vector<Work> many;
  for (int i = 0; i < 200; ++i) many.emplace_back(open());
  EXPECT_FALSE(held.done());
  again.finish({});
  EXPECT_TRUE(held.done());
  many.clear();
  calls.for_each_pending([](PendingCall& op) { op.finish({}); });
  EXPECT_EQ(calls.pending_of(nullptr), 0u);
}

}  // namespace
}  // namespace sinew
