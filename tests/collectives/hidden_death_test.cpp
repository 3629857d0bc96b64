// A rank leaves a child behind that holds its descriptors, and dies. It is the only rank of its host, so that nobody
// there can tell.
#include <unistd.h>

#include <regex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <support/run_program.hpp>

namespace sinew {
namespace {

using test::Outcome;

struct Said {
  int lost = -1;
  double seconds = 0;
  double shrink_seconds = 0;
  bool went_on = false;
};

std::vector<Said> survivors_of(const std::string& text) {
  static const std::regex line(
      R"re("lost":(-?\d+),"code":"\w+","seconds":([\d.]+),"shrink_seconds":([\d.]+),"went_on":(\w+))re");
  std::vector<Said> all;
  for (std::sregex_iterator at(text.begin(), text.end(), line), end; at != end; ++at) {
    const std::smatch& m = *at;
    all.push_back({std::stoi(m[1]), std::stod(m[2]), std::stod(m[3]), m[4] == "true"});
  }
  return all;
}

struct Death {
  const char* start;
  const char* leaves;
  const char* transport = "tcp";
  const char* ofi_provider = "";
};

class HiddenDeathOnThreeHosts : public testing::TestWithParam<Death> {};

TEST_P(HiddenDeathOnThreeHosts, IsKnownWithinTwoSeconds_AndSurvivorsGoOnWithinThree) {
  if (::access(PROGRAMS "/survivors", X_OK) != 0) GTEST_SKIP() << "the tools are not built";
  const Death& death = GetParam();
  std::vector<std::string> environment{std::string("SINEW_TRANSPORTS=") + death.transport};
  if (*death.ofi_provider != 0) environment.push_back(std::string("SINEW_OFI_PROVIDER=") + death.ofi_provider);
  for (const int victim : {0, 2}) {
    SCOPED_TRACE(victim);
    const Outcome o = test::run_program(
        {HIDDEN_DEATH, death.start, SINEW_RUN, PROGRAMS "/survivors", std::to_string(victim), death.leaves},
        environment);
    if (o.exit_code == 77) GTEST_SKIP() << o.out;
    const std::vector<Said> said = survivors_of(o.out);
    EXPECT_EQ(said.size(), 2U) << o.out << o.err;
    for (const Said& s : said) {
      EXPECT_EQ(s.lost, victim) << o.out;
      EXPECT_LT(s.seconds, 2) << o.out;
      EXPECT_LT(s.shrink_seconds, 3) << o.out;
      EXPECT_TRUE(s.went_on) << o.out;
    }
  }
}

std::string name_of_death(const testing::TestParamInfo<Death>& info) {
  return std::string(info.param.start) + "_" + info.param.leaves + "_" + info.param.transport;
}

/// All children with all ways of starting are a row of the scorecard, survivors_hidden.
std::vector<Death> every_way_of_starting() {
  std::vector<Death> all{{"variables", "early"}, {"variables", "grandchild"}};
  for (const char* start : {"sinew_run", "variables", "torchrun", "slurm", "openmpi"}) {
    for (const char* leaves : {"child", "clone"}) all.push_back({start, leaves});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Starts, HiddenDeathOnThreeHosts, testing::ValuesIn(every_way_of_starting()), name_of_death);

#ifdef SINEW_TEST_UCX
INSTANTIATE_TEST_SUITE_P(Ucx, HiddenDeathOnThreeHosts,
                         testing::Values(Death{"variables", "child", "ucx"}, Death{"variables", "clone", "ucx"}),
                         name_of_death);
#endif
#ifdef SINEW_TEST_OFI
INSTANTIATE_TEST_SUITE_P(Ofi, HiddenDeathOnThreeHosts,
                         testing::Values(Death{"variables", "child", "ofi", "tcp"},
                                         Death{"variables", "clone", "ofi", "tcp"}),
                         name_of_death);
#endif

}  // namespace
}  // namespace sinew
