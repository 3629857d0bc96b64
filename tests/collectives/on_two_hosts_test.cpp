#include <unistd.h>

#include <cmath>
#include <regex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <support/run_program.hpp>
#include <support/sanitized.hpp>

// Programs on two hosts, which are network namespaces of this machine.
namespace sinew {
namespace {

using test::Outcome;
using test::run_program;
using ::testing::HasSubstr;

/// Ranks 0 and 1 on one host, 2 and 3 on the other; `rate` of their link, such as 1gbit; empty: as fast as it goes.
Outcome job_on_two_hosts(const std::string& rate, const std::string& program,
                         const std::vector<std::string>& arguments) {
  std::vector<std::string> all{ON_HOSTS, "--launcher", SINEW_RUN, "--ranks",
                               "2,2",    "--rate",     rate,      std::string(PROGRAMS) + "/" + program};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return run_program(all, {"ASAN_OPTIONS=detect_leaks=0"});
}

class OnTwoHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::access(PROGRAMS "/survivors", X_OK) != 0) GTEST_SKIP() << "the tools are not built";
  }
};

TEST_F(OnTwoHosts, RanksThatComputeOrAreStoppedAreLate) {
  const Outcome o = job_on_two_hosts("", "late", {"--computes", "4", "--stopped", "3"});
  if (o.exit_code == 77) GTEST_SKIP() << o.out;
  EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
}

/// The transport assumes ten times as much. This number stays if a busy machine leaves no time for long messages.
TEST_F(OnTwoHosts, CostsAreThoseOfTheirLink) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer takes the time that there is for measuring";
  constexpr double kLink = 0.12;
  // A shaped link lets the first bytes of a message pass at once, and other programs take time from the measurement.
  const auto is_near = [](double rate) { return rate > kLink / 2 && rate < kLink * 2; };
  double rate = 0;
  for (int attempt = 0; attempt < 5 && !is_near(rate); ++attempt) {
    const Outcome o = job_on_two_hosts("1gbit", "sinew-info", {"transports"});
    if (o.exit_code == 77) GTEST_SKIP() << o.out;
    ASSERT_EQ(o.exit_code, 0) << o.out << o.err;
    EXPECT_THAT(o.out, HasSubstr("between hosts: measured just now"));
    std::smatch found;
    ASSERT_TRUE(std::regex_search(o.out, found, std::regex("hosts 0 and 1: tcp: [0-9.]+ us, ([0-9.]+) GB/s"))) << o.out;
    rate = std::stod(found[1]);
  }
  EXPECT_PRED1(is_near, rate);
}

}  // namespace
}  // namespace sinew
