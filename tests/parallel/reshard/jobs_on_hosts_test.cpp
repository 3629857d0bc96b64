#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <support/run_program.hpp>

namespace sinew {
namespace {

using test::Outcome;
using test::run_program;
using ::testing::HasSubstr;

/// 64 MB of four trainers' rows become columns of three inference ranks of another job on another host. Each byte
/// crosses the link once; the jobs compare all values themselves. The row reshard of the scorecard measures the rate.
TEST(ReshardOfTwoJobs, SendsEachByteOnceBetweenTwoHosts) {
  if (::access(SINEW_RUN, X_OK) != 0) GTEST_SKIP() << "the tools are not built";
  const Outcome o = run_program({TWO_JOBS, SINEW_RUN, RESHARD_JOB, "1gbit", "64"});
  if (o.exit_code == 77) GTEST_SKIP() << o.out;
  ASSERT_EQ(o.exit_code, 0) << o.out << o.err;
  EXPECT_THAT(o.out, HasSubstr("across hosts 64.0 MB; within hosts 0 B"));
}

}  // namespace
}  // namespace sinew
