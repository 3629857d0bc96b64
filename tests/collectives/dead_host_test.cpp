// A host goes out of reach with all of its ranks.
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <support/run_program.hpp>

namespace sinew {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

TEST(DeadHost, IsSaidWithAllItsRanks) {
  if (::access(PROGRAMS "/sinew-bench", X_OK) != 0) GTEST_SKIP() << "the tools are not built";
  const test::Outcome o =
      test::run_program({DEAD_HOST, PROGRAMS "/sinew-bench", "all_reduce", "-b", "8", "-e", "8", "-n", "100000000"});
  if (o.exit_code == 77) GTEST_SKIP() << o.out;
  for (const char* survivor : {"sinew-bench: rank 0: ", "sinew-bench: rank 1: "}) {
    EXPECT_THAT(o.out, HasSubstr(survivor)) << o.err;
  }
  EXPECT_THAT(o.out, AnyOf(HasSubstr("ended: its host is out of reach, and rank 3 with it: "),
                           HasSubstr("ended: its host is out of reach, and rank 2 with it: ")));
}

}  // namespace
}  // namespace sinew
