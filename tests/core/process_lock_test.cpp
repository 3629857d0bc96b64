#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/base/sanitizer.hpp>

namespace sinew {
namespace {

using namespace std::chrono_literals;

constexpr int kLocks = static_cast<int>(OfProcess::Log) + 1;

/// A child calls `first`, then takes every lock and gives it back. Returns 0, or the signal that ends a child which
/// waits for ever.
template <class F>
int child_takes_all(F first) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    first();
    for (int i = 0; i < kLocks; ++i) const ProcessLock lock(static_cast<OfProcess>(i));
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

/// A thread that holds a lock until it is told to let go of it.
class Holder {
 public:
  explicit Holder(OfProcess what) {
    std::promise<void> holds;
    thread_ = std::thread([this, what, &holds] {
      const ProcessLock lock(what);
      holds.set_value();
      let_go_.get_future().wait();
    });
    holds.get_future().wait();
  }
  ~Holder() {
    let_go_.set_value();
    thread_.join();
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

 private:
  std::promise<void> let_go_;
  std::thread thread_;
};

TEST(ProcessLock, AllAreFreeInAChild_MadeWhileOtherThreadsHoldThem) {
  if constexpr (SINEW_THREAD_SANITIZER)
    GTEST_SKIP() << "clang's thread sanitizer does not know the threads of a parent in its child";
  std::vector<std::unique_ptr<Holder>> holders;
  for (int i = 0; i < kLocks; ++i) holders.push_back(std::make_unique<Holder>(static_cast<OfProcess>(i)));
  EXPECT_EQ(child_takes_all([] {}), 0);
}

TEST(ProcessLock, EachStaysItsHolders_InAChildThatTheHolderMakes) {
  for (int i = 0; i < kLocks; ++i) {
    std::optional<ProcessLock> lock(std::in_place, static_cast<OfProcess>(i));
    EXPECT_EQ(child_takes_all([&] { lock.reset(); }), 0) << i;
    lock.reset();
    const ProcessLock again(static_cast<OfProcess>(i));
  }
}

/// fork() waits until the thread that writes has finished, so the child finds no half-written data.
TEST(ProcessLock, AForkWaitsForAThreadThatHoldsOne) {
  if constexpr (SINEW_THREAD_SANITIZER)
    GTEST_SKIP() << "clang's thread sanitizer does not know the threads of a parent in its child";
  struct Pair {
    volatile int first = 0, second = 0;
  } pair;
  std::promise<void> half;
  std::thread writer([&] {
    const ProcessLock lock(OfProcess::Handles);
    pair.first = 1;
    half.set_value();
    std::this_thread::sleep_for(50ms);
    pair.second = 1;
  });
  half.get_future().wait();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(pair.first == pair.second ? 0 : 1);
  writer.join();
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(ProcessLock, TwoThreadsExcludeEachOther_AlsoAfterAFork) {
  ASSERT_EQ(child_takes_all([] {}), 0);
  constexpr int kRounds = 20000;  // not a page
  int counted = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        const ProcessLock lock(OfProcess::CallSites);
        ++counted;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(counted, 2 * kRounds);
}

}  // namespace
}  // namespace sinew
