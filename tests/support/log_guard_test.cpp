#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <support/log_guard.hpp>

namespace sinew::test {
namespace {

TEST(ExpectLog, TakesTheLine_WhenItWasExpected) {
  ExpectLog expected(log::Level::Warning, "two of three");
  log::warning("lost {} of {}: two of three", 2, 3);
  EXPECT_EQ(expected.lines().size(), 1U);
}

TEST(ExpectLog, TakesTheLine_WhenAForkedRankWroteIt) {
  ExpectLog expected(log::Level::Warning, "from the child");
  const pid_t child = ::fork();
  if (child == 0) {
    log::warning("from the child");
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(expected.lines().size(), 1U);
}

TEST(ExpectLog, Fails_WhenTheLineNeverCame) {
  EXPECT_NONFATAL_FAILURE({ ExpectLog expected(log::Level::Error, "never written"); }, "never written");
}

TEST(ExpectLog, LeavesOtherLevelsAlone) {
  ExpectLog warning(log::Level::Warning, "line");
  {
    ExpectLog error(log::Level::Error, "line");
    log::warning("line");
    log::write(log::Level::Error, "line");
    EXPECT_EQ(error.lines().size(), 1U);
  }
  EXPECT_EQ(warning.lines().size(), 1U);
}

TEST(LogGuard, IsQuiet_WhenOnlyLowerLevelsAreWritten) { log::write(log::Level::Info, "information is no failure"); }

}  // namespace
}  // namespace sinew::test
