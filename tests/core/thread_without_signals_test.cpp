#include <pthread.h>

#include <csignal>

#include <gtest/gtest.h>

#include <sinew/core/system/thread_without_signals.hpp>

namespace sinew {
namespace {

TEST(ThreadWithoutSignals, BlocksAllSignals_AndLeavesTheCallersAlone) {
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  sigset_t inside;
  thread_without_signals([&inside] { pthread_sigmask(SIG_SETMASK, nullptr, &inside); }).join();
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD, SIGPIPE}) {
    EXPECT_EQ(sigismember(&inside, number), 1) << number;
    EXPECT_EQ(sigismember(&after, number), sigismember(&before, number)) << number;
  }
}

}  // namespace
}  // namespace sinew
