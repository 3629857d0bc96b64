// Ranks that meet by RANK and its companions, or by srun's variables.
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/secret.hpp>
#include <sinew/core/net/socket_address.hpp>
#include <sinew/core/store/store_server.hpp>

#include "probed_launch.hpp"

namespace sinew::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class LaunchOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, LaunchOf, testing::Values(1, 2, 4, 7));

TEST_P(LaunchOf, Srun_BringsAllTasksTogether) {
  const int ranks = GetParam();
  const int job = some_port();
  std::vector<Strings> environments;
  for (int r = 0; r < ranks; ++r) environments.push_back(srun(r, {ranks}, job));
  std::string out;
  for (const Outcome& o : probe_each(environments, {"2"})) {
    EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
    out += o.out;
  }
  expect_all_met(out, ranks, 2, "srun");
}

TEST(Launch, Srun_MeetsOverTcpWithASecret_AndAsksForOneWithout) {
  const SecretFile secret("sixteen bytes and more");
  const Strings more = {"MASTER_ADDR=127.0.0.1", fmt::format("MASTER_PORT={}", some_port())};
  Strings with_secret = more;
  with_secret.push_back(secret.variable());
  const int job = some_port();
  std::vector<Strings> environments, without;
  for (int r = 0; r < 3; ++r) {
    environments.push_back(srun(r, {2, 1}, job, with_secret));
    without.push_back(srun(r, {2, 1}, job, more));
  }
  std::string out;
  for (const Outcome& o : probe_each(environments)) {
    EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
    out += o.out;
  }
  expect_all_met(out, 3, 1, "srun");
  for (const Outcome& o : probe_each(without)) {
    EXPECT_EQ(o.exit_code, kProbeError);
    EXPECT_THAT(o.err + o.out, AllOf(HasSubstr("of SLURM_STEP_NUM_TASKS=3 here"), HasSubstr("srun --mpi=pmi2"),
                                     HasSubstr("SINEW_SECRET_FILE"), HasSubstr("SINEW_ALONE=1")));
  }
}

TEST_P(LaunchOf, Variables_BringAllRanksTogether) {
  const int ranks = GetParam();
  const int port = some_port();
  std::vector<Strings> environments;
  for (int r = 0; r < ranks; ++r) environments.push_back(master(r, ranks, port));
  std::string out;
  for (const Outcome& o : probe_each(environments, {"3", "5000"})) {
    EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
    out += o.out;
  }
  expect_all_met(out, ranks, 3, "RANK");
}

TEST_P(LaunchOf, VariablesWithSecret_BringAllRanksTogether) {
  const int ranks = GetParam();
  const int port = some_port();
  const SecretFile file("sixteen bytes or more\n");
  std::vector<Strings> environments;
  for (int r = 0; r < ranks; ++r) {
    environments.push_back(master(r, ranks, port, {"LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", file.variable()}));
  }
  std::string out;
  for (const Outcome& o : probe_each(environments, {"2"})) {
    EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
    out += o.out;
  }
  expect_all_met(out, ranks, 2, "RANK");
}

TEST(Launch, MasterAddress_MayBeIpv6_InBracketsOrNot) {
  const SecretFile secret("sixteen bytes or more");
  for (const std::string address : {"[::1]", "::1"}) {
    // The UNIX socket of one host, and TCP as between hosts.
    for (const Strings& way : {Strings{}, Strings{"LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", secret.variable()}}) {
      const int port = some_port();
      Strings more = way;
      more.push_back("MASTER_ADDR=" + address);
      std::string out;
      for (const Outcome& o : probe_each({master(0, 2, port, more), master(1, 2, port, more)})) {
        EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
        out += o.out;
      }
      expect_all_met(out, 2, 1, "RANK");
    }
  }
}

TEST(Launch, MasterThatDoesNotAnswer_IsShownAsGiven) {
  const SecretFile secret("sixteen bytes or more");
  const auto outcomes = probe_each(
      {master(1, 2, some_port(),
              {"MASTER_ADDR=[::1]", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", secret.variable(), "SINEW_TIMEOUT=300ms"})});
  EXPECT_EQ(outcomes[0].exit_code, kProbeError);
  EXPECT_THAT(outcomes[0].out, AllOf(HasSubstr("MASTER_ADDR=[::1]: "), HasSubstr("rank 0 did not come")));
}

TEST(Launch, MissingRanks_AreNamed) {
  const int port = some_port();
  const auto outcomes =
      probe_each({master(0, 4, port, {"SINEW_TIMEOUT=1s"}), master(2, 4, port, {"SINEW_TIMEOUT=1s"})});
  for (const Outcome& o : outcomes) {
    EXPECT_EQ(o.exit_code, kProbeError);
    EXPECT_THAT(o.out, AllOf(HasSubstr("Timeout"), HasSubstr("ranks 1, 3 of 4 did not come")));
  }
}

TEST(Launch, MissingRank0_IsNamed) {
  const auto outcomes = probe_each({master(1, 2, some_port(), {"SINEW_TIMEOUT=300ms"})});
  EXPECT_EQ(outcomes[0].exit_code, kProbeError);
  EXPECT_THAT(outcomes[0].out, AllOf(HasSubstr("Timeout"), HasSubstr("rank 0 did not come")));
}

TEST(Launch, WrongWorldSize_IsRefusedWithBothNumbers_OnAllRanks) {
  const int port = some_port();
  const auto outcomes = probe_each({master(0, 2, port), master(1, 3, port)});
  for (const auto& o : outcomes) {
    EXPECT_EQ(o.exit_code, kProbeError);
    EXPECT_THAT(o.out, AllOf(HasSubstr("Mismatch"), HasSubstr("rank 1"), HasSubstr("has 3 ranks, but it has 2")));
  }
}

TEST(Launch, SecondRank0_LearnsWhoHasThePlace) {
  const int port = some_port();
  StoreServerThread server(StoreServerOptions{.secret = random_secret()});
  server.listen(listen_on(bootstrap_address(static_cast<std::uint16_t>(port), "")));
  const auto outcomes = probe_each({master(0, 2, port)});
  EXPECT_EQ(outcomes[0].exit_code, kProbeError);
  EXPECT_THAT(outcomes[0].out, AllOf(HasSubstr(fmt::format("process {} is rank 0", ::getpid())),
                                     HasSubstr(fmt::format("MASTER_PORT={}", port))));
}

TEST(Launch, LauncherThatDoesNotAnswer_IsNotTakenForNone) {
  const int port = some_port();
  const Listener busy = listen_on(bootstrap_address(static_cast<std::uint16_t>(port), "of-this-launcher"));
  for (const auto& o : probe_each({master(0, 2, port, {"SINEW_JOB=of-this-launcher", "SINEW_TIMEOUT=200ms"}),
                                   master(1, 2, port, {"SINEW_JOB=of-this-launcher", "SINEW_TIMEOUT=200ms"})})) {
    EXPECT_EQ(o.exit_code, kProbeError);
    EXPECT_THAT(o.out, AllOf(HasSubstr("Timeout"), HasSubstr("somebody listens there")));
  }
}

TEST(Launch, JobNames_SeparateJobsOfOnePort) {
  const int port = some_port();
  const auto outcomes = probe_each({master(0, 2, port, {"SINEW_JOB=a"}), master(0, 2, port, {"SINEW_JOB=b"}),
                                    master(1, 2, port, {"SINEW_JOB=a"}), master(1, 2, port, {"SINEW_JOB=b"})});
  for (const Outcome& o : outcomes) EXPECT_EQ(o.exit_code, 0) << o.out;
}

TEST(Launch, PortInUse_IsSaid) {
  const SecretFile file("sixteen bytes or more");
  const Listener occupant = listen_everywhere(0, std::nullopt);
  const auto outcomes =
      probe_each({master(0, 2, occupant.address.port(), {"LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", file.variable()})});
  EXPECT_EQ(outcomes[0].exit_code, kProbeError);
  EXPECT_THAT(outcomes[0].out, AllOf(HasSubstr(fmt::format("port {}", occupant.address.port())), HasSubstr("in use")));
}

TEST(Launch, SeveralHosts_NeedASecret) {
  const auto remote = probe_each({master(1, 2, some_port(), {"MASTER_ADDR=203.0.113.7"})});
  EXPECT_EQ(remote[0].exit_code, kProbeError);
  EXPECT_THAT(remote[0].out,
              AllOf(HasSubstr("Unavailable"), HasSubstr("MASTER_ADDR=203.0.113.7"), HasSubstr("SINEW_SECRET_FILE")));
  const auto half = probe_each({master(0, 2, some_port(), {"LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1"})});
  EXPECT_EQ(half[0].exit_code, kProbeError);
  EXPECT_THAT(half[0].out, AllOf(HasSubstr("LOCAL_WORLD_SIZE=1 of WORLD_SIZE=2"), HasSubstr("SINEW_SECRET_FILE")));
}

TEST(Launch, BadSecretFiles_AreNamed) {
  const auto missing = probe_each({master(0, 2, some_port(), {"SINEW_SECRET_FILE=/nowhere/at/all"})});
  EXPECT_THAT(missing[0].out, AllOf(HasSubstr("InvalidArgument"), HasSubstr("/nowhere/at/all: cannot be read")));
  const SecretFile file("short");
  const auto small = probe_each({master(0, 2, some_port(), {file.variable()})});
  EXPECT_THAT(small[0].out, AllOf(HasSubstr("holds 5 bytes"), HasSubstr("at least 16")));
}

TEST(Launch, HalfSetVariables_AreNamed) {
  const Outcome o = run_program({EXCHANGE_PROBE}, {"RANK=0", "MASTER_PORT=29500"});
  EXPECT_EQ(o.exit_code, kProbeError);
  EXPECT_THAT(o.out, HasSubstr("RANK, MASTER_PORT set, but WORLD_SIZE, MASTER_ADDR missing"));
}

TEST(Launch, UnknownHostName_IsNamed) {
  const auto outcomes = probe_each({master(1, 2, some_port(), {"MASTER_ADDR=no-such-host.invalid"})});
  EXPECT_EQ(outcomes[0].exit_code, kProbeError);
  EXPECT_THAT(outcomes[0].out,
              HasSubstr("MASTER_ADDR=no-such-host.invalid: host name 'no-such-host.invalid' cannot be looked up"));
}

}  // namespace
}  // namespace sinew::test
