#include <unistd.h>

#include <regex>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <support/run_program.hpp>

namespace sinew {
namespace {

using test::Outcome;
using test::run_program;
using ::testing::HasSubstr;

/// 64 MB of four trainers' rows become columns of three inference ranks of another job on another host. Each byte
/// crosses the link once, at 80 % of its rate or more.
TEST(ReshardOfTwoJobs, UsesTheLinkBetweenTwoHosts) {
  if (::access(SINEW_RUN, X_OK) != 0) GTEST_SKIP() << "the tools are not built";
  constexpr double kLink = 0.125;  // GB/s: 1 Gbit/s
  double rate = 0;
  for (int attempt = 0; attempt < 3 && rate < 0.8 * kLink; ++attempt) {  // other programs take time
    const Outcome o = run_program({TWO_JOBS, SINEW_RUN, RESHARD_JOB, "1gbit", "64"});
    if (o.exit_code == 77) GTEST_SKIP() << o.out;
    ASSERT_EQ(o.exit_code, 0) << o.out << o.err;
    EXPECT_THAT(o.out, HasSubstr("across hosts 64.0 MB; within hosts 0 B"));
    std::smatch found;
    ASSERT_TRUE(std::regex_search(o.out, found, std::regex("([0-9.]+) GB/s"))) << o.out;
    rate = std::stod(found[1]);
  }
  EXPECT_GE(rate, 0.8 * kLink);
  EXPECT_LT(rate, 1.1 * kLink);
}

}  // namespace
}  // namespace sinew
