#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <support/run_program.hpp>

namespace sinew::test {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

void expect_complaint(const Words& command, const Words& environment, int exit_code, const std::string& expected) {
  const Outcome o = run_program(command, environment);
  EXPECT_EQ(o.exit_code, exit_code) << o.err;
  EXPECT_EQ(o.out, "");
  EXPECT_EQ(std::ranges::count(o.err, '\n'), 1) << o.err;
  EXPECT_THAT(o.err, HasSubstr(expected));
}

TEST(Example, EndsWithTwoAndOneLine_WhenItsEnvironmentIsWrong) {
  expect_complaint({ALL_REDUCE_EXAMPLE}, {"SINEW_TYPO=1"}, 2, "all_reduce_example: SINEW_TYPO: no such variable");
  expect_complaint({ALL_REDUCE_EXAMPLE}, {"RANK=2", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=5555"}, 2,
                   "RANK=2");
}

TEST(Conformance, EndsWithTwoAndOneLine_WhenInputIsBad) {
  expect_complaint({SINEW_CONFORMANCE, "--bogus"}, {}, 2, "sinew-conformance: --bogus: no such option");
  for (const char* rounds : {"-1", "0", "x", "99999999999"}) {
    expect_complaint({SINEW_CONFORMANCE, "--rounds", rounds}, {}, 2, "expected a whole number, 1 to 1000000");
  }
  expect_complaint({SINEW_CONFORMANCE, "--largest", "9x"}, {}, 2, "9x");
}

}  // namespace
}  // namespace sinew::test
