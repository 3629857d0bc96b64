// Ranks that meet by RANK and its companions, or by srun's variables.
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/secret.hpp>
#include <sinew/core/net/socket_address.hpp>
#include <sinew/core/net/stream_socket.hpp>
#include <sinew/core/store/store_server.hpp>
#include <sinew/core/system/host_name.hpp>
#include <support/scratch_folder.hpp>

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
    without.back().emplace_back(kNoMunge);
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

/// The variables of ranks that meet over TCP on this host.
std::vector<Strings> over_tcp(int ranks, int port, const Strings& more) {
  std::vector<Strings> environments;
  for (int r = 0; r < ranks; ++r) {
    environments.push_back(master(r, ranks, port, {"LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1"}));
    environments.back().insert(environments.back().end(), more.begin(), more.end());
  }
  return environments;
}

/// Silent listeners at so many ports that follow each other.
std::vector<Listener> occupy_ports(int count) {
  for (;;) {
    std::vector<Listener> all;
    const auto first = static_cast<std::uint16_t>(some_port());
    try {
      for (int i = 0; i < count; ++i) {
        all.push_back(listen_everywhere(static_cast<std::uint16_t>(first + i), std::nullopt));
      }
      return all;
    } catch (const Error&) {  // one of them is taken: others
    }
  }
}

TEST(Launch, PortInUse_MakesRanksMeetAtAFollowingOne) {
  const SecretFile file("sixteen bytes or more");
  for (const int taken : {1, 3}) {
    const std::vector<Listener> occupants = occupy_ports(taken);
    const auto start = std::chrono::steady_clock::now();
    std::string out;
    for (const Outcome& o : probe_each(over_tcp(3, occupants.front().address.port(), {file.variable()}), {"2"})) {
      EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
      out += o.out;
    }
    expect_all_met(out, 3, 2, "RANK");
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << "of a deadline of 60 s";
  }
}

TEST(Launch, PortsInUse_AreSaid) {
  const SecretFile file("sixteen bytes or more");
  const std::vector<Listener> occupants = occupy_ports(4);
  const int port = occupants.front().address.port();
  const auto outcomes = probe_each(over_tcp(1, port, {file.variable(), "WORLD_SIZE=2"}));
  EXPECT_EQ(outcomes[0].exit_code, kProbeError);
  EXPECT_THAT(outcomes[0].out, AllOf(HasSubstr(fmt::format("none of the ports {} to {}", port, port + 3)),
                                     HasSubstr("in use"), HasSubstr("choose another MASTER_PORT")));
}

TEST(Launch, JobsOfOnePort_AreApart_WhereTheirSecretsOrNamesDiffer) {
  const SecretFile one("the secret of the first job"), two("the secret of the second job");
  for (const SecretFile* second : {&two, &one}) {
    const int port = some_port();
    std::vector<Strings> environments = over_tcp(2, port, {one.variable(), "SINEW_JOB=a"});
    for (Strings& more : over_tcp(3, port, {second->variable(), "SINEW_JOB=b"}))
      environments.push_back(std::move(more));
    const auto outcomes = probe_each(environments);
    std::string a, b;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      EXPECT_EQ(outcomes[i].exit_code, 0) << outcomes[i].out << outcomes[i].err;
      (i < 2 ? a : b) += outcomes[i].out;
    }
    expect_all_met(a, 2, 1, "RANK");
    expect_all_met(b, 3, 1, "RANK");
  }
}

TEST(Launch, JobsOfOnePort_WithOtherSecrets_DoNotMix) {
  const SecretFile mine("the secret of this job");
  const int port = some_port();
  StoreServerThread other(StoreServerOptions{.secret = random_secret()});
  other.listen(listen_on(bootstrap_address(static_cast<std::uint16_t>(port), "")));
  const auto outcomes = probe_each({over_tcp(2, port, {mine.variable(), "SINEW_TIMEOUT=1s"})[1]});
  EXPECT_EQ(outcomes[0].exit_code, kProbeError);
  EXPECT_THAT(outcomes[0].out, AllOf(HasSubstr("Mismatch"), HasSubstr(fmt::format("process {} serves", ::getpid())),
                                     HasSubstr("with another secret"), HasSubstr("choose another MASTER_PORT")));
}

TEST(Launch, SeveralHosts_NeedASecret) {
  for (const Strings& more : {Strings{}, Strings{"LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1"}}) {
    Strings variables = master(1, 2, some_port(), {"MASTER_ADDR=203.0.113.7", kNoMunge});
    variables.insert(variables.end(), more.begin(), more.end());
    const auto outcomes = probe_each({variables});
    EXPECT_EQ(outcomes[0].exit_code, kProbeError);
    EXPECT_THAT(outcomes[0].out,
                AllOf(HasSubstr("Unavailable"), HasSubstr("SINEW_SECRET_FILE"), HasSubstr("MUNGE: sealing a secret"),
                      HasSubstr(more.empty() ? "MASTER_ADDR=203.0.113.7" : "LOCAL_WORLD_SIZE=1 of WORLD_SIZE=2")));
  }
}

TEST(Launch, LoopbackMaster_IsOneHost_WhateverAnAgentCounts) {
  for (const char* address : {"127.0.0.1", "localhost", "::1"}) {
    const int port = some_port();
    std::vector<Strings> environments;
    for (int r = 0; r < 4; ++r) {
      environments.push_back(master(r, 4, port,
                                    {std::string("MASTER_ADDR=") + address, fmt::format("LOCAL_RANK={}", r % 2),
                                     "LOCAL_WORLD_SIZE=2", kNoMunge}));
    }
    std::string out;
    for (const Outcome& o : probe_each(environments)) {
      EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
      out += o.out;
    }
    expect_all_met(out, 4, 1, "RANK");
  }
}

/// Ranks that somebody has numbered by srun's variables, as scripts do.
Strings numbered_by_srun(int rank, const std::vector<int>& nodes, int job, const Strings& more) {
  int tasks = 0;
  for (const int n : nodes) tasks += n;
  Strings all = srun(rank, nodes, job);
  for (Strings part : {master(rank, tasks, job), Strings{kNoMunge}, more}) {
    for (std::string& v : part) all.push_back(std::move(v));
  }
  return all;
}

TEST(Launch, RanksNumberedByHand_LearnFromSrunThatTheyAreOnSeveralHosts) {
  const int job = some_port();
  std::vector<Strings> several, one;
  for (int r = 0; r < 4; ++r) {
    several.push_back(numbered_by_srun(r, {2, 2}, job, {}));
    one.push_back(numbered_by_srun(r, {4}, job, {"MASTER_ADDR=203.0.113.7"}));
  }
  for (const Outcome& o : probe_each(several)) {
    EXPECT_EQ(o.exit_code, kProbeError) << "no rank waits for ranks that have refused";
    EXPECT_THAT(o.out, AllOf(HasSubstr("srun has started 2 of SLURM_STEP_NUM_TASKS=4 here"),
                             HasSubstr("start them with srun --mpi=pmix"), HasSubstr("SINEW_SECRET_FILE")));
  }
  std::string out;
  for (const Outcome& o : probe_each(one)) out += o.out;
  expect_all_met(out, 4, 1, "RANK");
}

TEST(Launch, RanksOfNobodyKnowsHowManyHosts_SayWhatTheyTookForGranted) {
  const int port = some_port();
  const auto outcomes =
      probe_each({master(0, 2, port, {"MASTER_ADDR=" + host_name(), "SINEW_TIMEOUT=300ms", kNoMunge})});
  EXPECT_EQ(outcomes[0].exit_code, kProbeError);
  EXPECT_THAT(outcomes[0].out, AllOf(HasSubstr("rank 1 of 2 did not come"), HasSubstr("nothing says how many hosts"),
                                     HasSubstr("SINEW_SECRET_FILE")));
}

TEST(Launch, Munge_CarriesTheSecretOfRanksOnSeveralHosts) {
  const ScratchFolder folder;
  const Strings munge = {kNoMunge, "FAKE_MUNGE_FOLDER=" + folder / ""};
  const int job = some_port();
  std::vector<Strings> by_hand;
  std::vector<Strings> by_srun;
  for (int r = 0; r < 3; ++r) {
    by_hand.push_back(numbered_by_srun(r, {2, 1}, job, munge));
    by_srun.push_back(srun(r, {2, 1}, job, munge));
    by_srun.back().emplace_back("MASTER_ADDR=127.0.0.1");
  }
  for (const auto& [environments, kind] : {std::pair{by_hand, "RANK"}, std::pair{by_srun, "srun"}}) {
    std::string out;
    for (const Outcome& o : probe_each(environments, {"2"})) {
      EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
      out += o.out;
    }
    expect_all_met(out, 3, 2, kind);
  }
}

TEST(Launch, BadSecretFiles_AreNamed) {
  const auto missing = probe_each({master(0, 2, some_port(), {"SINEW_SECRET_FILE=/nowhere/at/all"})});
  EXPECT_THAT(missing[0].out, AllOf(HasSubstr("InvalidArgument"), HasSubstr("/nowhere/at/all: cannot be read")));
  const SecretFile file("short");
  const auto small = probe_each({master(0, 2, some_port(), {file.variable()})});
  EXPECT_THAT(small[0].out, AllOf(HasSubstr("holds 5 bytes"), HasSubstr("16 random bytes or more")));
}

TEST(Launch, HalfSetVariables_AreNamed) {
  const Outcome o = run_program({EXCHANGE_PROBE}, {"RANK=0", "MASTER_PORT=29500"});
  EXPECT_EQ(o.exit_code, kProbeError);
  EXPECT_THAT(o.out, HasSubstr("RANK, MASTER_PORT set, but WORLD_SIZE, MASTER_ADDR missing"));
}

TEST(Launch, UnknownHostName_IsNamed) {
  const auto outcomes =
      probe_each({master(1, 2, some_port(), {"MASTER_ADDR=no-such-host.invalid", "SINEW_TIMEOUT=300ms"})});
  EXPECT_EQ(outcomes[0].exit_code, kProbeError);
  EXPECT_THAT(outcomes[0].out,
              AllOf(HasSubstr("MASTER_ADDR=no-such-host.invalid: host name 'no-such-host.invalid' cannot be looked up"),
                    HasSubstr(", tried for "), HasSubstr(host_name())));
}

}  // namespace
}  // namespace sinew::test
