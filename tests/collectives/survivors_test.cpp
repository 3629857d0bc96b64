// A rank that is killed in the middle of a collective, over every transport: how soon that is known the scorecard says.
#include <unistd.h>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <support/run_program.hpp>

namespace sinew {
namespace {

using test::Outcome;
using Strings = std::vector<std::string>;

struct Way {
  const char* name;
  const char* transports;
  const char* ofi_provider = "";  // "tcp" means tcp;ofi_rxm to libfabric
};

std::vector<Way> ways_of_one_host() {
  return {
      {"shm", "shm"},
      {"tcp", "tcp"},
#ifdef SINEW_TEST_UCX
      {"ucx", "ucx"},
#endif
#ifdef SINEW_TEST_OFI
      {"ofi_tcp", "ofi", "tcp"},
      {"ofi_shm", "ofi", "shm"},
#endif
  };
}

std::vector<Way> ways_between_hosts() {
  return {
      {"shm_and_tcp", "shm,tcp"},
      {"tcp", "tcp"},
#ifdef SINEW_TEST_UCX
      {"ucx", "ucx"},
#endif
#ifdef SINEW_TEST_OFI
      {"ofi", "ofi", "tcp"},
#endif
  };
}

class Survivors : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (::access(PROGRAMS "/survivors", X_OK) != 0) GTEST_SKIP() << "the tools are not built";
  }

  /// Four ranks, of which the first and the last die in their turn; `start`: the command before the program.
  void expect_named(Strings start) const {
    start.insert(start.end(), {PROGRAMS "/survivors"});
    Strings environment{std::string("SINEW_TRANSPORTS=") + GetParam().transports, "ASAN_OPTIONS=detect_leaks=0"};
    if (*GetParam().ofi_provider != 0)
      environment.push_back(std::string("SINEW_OFI_PROVIDER=") + GetParam().ofi_provider);
    const std::string stamp = testing::TempDir() + "/stamp_" + GetParam().name + "_" + std::to_string(::getpid());
    for (const char* victim : {"0", "3"}) {
      Strings command = start;
      command.insert(command.end(), {"--victim", victim, "--stamp", stamp});
      const Outcome o = test::run_program(command, environment);
      if (o.exit_code == 77) GTEST_SKIP() << o.out;
      const std::string lost = std::string("\"lost\":") + victim;
      std::size_t named = 0;
      for (std::size_t at = 0; (at = o.out.find(lost, at)) != std::string::npos; ++at) ++named;
      EXPECT_EQ(named, 3U) << o.out << o.err;
      EXPECT_THAT(o.out, testing::Not(testing::HasSubstr("\"went_on\":false"))) << o.err;
    }
    ::unlink(stamp.c_str());
  }
};

TEST_P(Survivors, NameTheDeadRankAndGoOn) { expect_named({SINEW_RUN, "-n", "4", "--on-failure", "continue"}); }

INSTANTIATE_TEST_SUITE_P(OneHost, Survivors, testing::ValuesIn(ways_of_one_host()),
                         [](const auto& way) { return way.param.name; });

/// Ranks 0 and 1 on one host, 2 and 3 on the other.
class SurvivorsOfTwoHosts : public Survivors {};

TEST_P(SurvivorsOfTwoHosts, NameTheDeadRankAndGoOn) {
  expect_named({ON_HOSTS, "--launcher", SINEW_RUN, "--ranks", "2,2"});
}

INSTANTIATE_TEST_SUITE_P(TwoHosts, SurvivorsOfTwoHosts, testing::ValuesIn(ways_between_hosts()),
                         [](const auto& way) { return way.param.name; });

}  // namespace
}  // namespace sinew
