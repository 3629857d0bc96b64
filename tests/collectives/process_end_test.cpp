#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include <gtest/gtest.h>

#include <sinew/collectives/control/verdict/process_end.hpp>
#include <sinew/core/system/process_state.hpp>

namespace sinew {
namespace {

TEST(ProcessEnd, TellsHowAChildEnded_BeforeItIsWaitedFor) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(3);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(how_it_ended(-1, child), "exited with code 3");
  EXPECT_EQ(state_of_process(child), 'Z');
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(state_of_process(child), '\0');
  EXPECT_EQ(how_it_ended(-1, child), "ended");
}

// The parent may wait for the child between the open and the read of what the kernel tells about it.
TEST(ProcessEnd, NeverThrows_WhenTheProcessGoesMeanwhile) {
  constexpr int kChildren = 300;
  std::atomic<pid_t> watched = 0;
  std::atomic<bool> stop = false;
  std::thread reader([&] {
    while (!stop) {
      if (const pid_t child = watched; child != 0) {
        EXPECT_NE(how_it_ended(-1, child), "");
      }
    }
  });
  for (int i = 0; i < kChildren; ++i) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    watched = child;
    EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  }
  stop = true;
  reader.join();
}

}  // namespace
}  // namespace sinew
