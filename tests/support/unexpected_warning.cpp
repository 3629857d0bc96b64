#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <sinew/core/log.hpp>

// Both tests must fail: that is what the guard is for.
TEST(LogGuard, Fails_WhenTheTestWarns) { sinew::log::warning("planted"); }

TEST(LogGuard, Fails_WhenAForkedRankWarns) {
  const pid_t child = ::fork();
  if (child == 0) {
    sinew::log::warning("planted by a child");
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}
