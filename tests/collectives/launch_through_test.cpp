// Ranks that meet through launchers, are refused, or are alone because they ask for it.
#include <unistd.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/core/base/random.hpp>
#include <sinew/core/net/secret.hpp>
#include <sinew/core/net/socket_address.hpp>
#include <sinew/core/store/store_server.hpp>
#include <support/scratch_folder.hpp>

#include "probed_launch.hpp"

namespace sinew::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class LaunchThroughMpi : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, LaunchThroughMpi, testing::Values(1, 2, 4, 7));

TEST_P(LaunchThroughMpi, OpenMpi_BringsAllRanksTogether) {
  if (!is_there("mpirun.openmpi")) GTEST_SKIP() << "mpirun.openmpi is not installed";
  const Outcome o = run_program({"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n",
                                 fmt::format("{}", GetParam()), EXCHANGE_PROBE, "2"},
                                {"ASAN_OPTIONS=detect_leaks=0"});  // libpmix's own
  EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
  expect_all_met(o.out, GetParam(), 2, SINEW_TEST_PMIX ? "PMIx" : "no PMIx in this build");
}

TEST_P(LaunchThroughMpi, Mpich_BringsAllRanksTogether) {
  if (!is_there("mpirun.mpich")) GTEST_SKIP() << "mpirun.mpich is not installed";
  const Outcome o = run_program({"mpirun.mpich", "-n", fmt::format("{}", GetParam()), EXCHANGE_PROBE, "2"});
  EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
  expect_all_met(o.out, GetParam(), 2, GetParam() == 1 ? "PMI-1" : "PMI-1 local");
}

TEST(LaunchThrough, MpichAtAPort_BringsAllRanksTogether) {
  if (!is_there("mpirun.mpich")) GTEST_SKIP() << "mpirun.mpich is not installed";
  for (const int ranks : {1, 3}) {
    const Outcome o = run_program({"mpirun.mpich", "-pmi-port", "-n", fmt::format("{}", ranks), EXCHANGE_PROBE, "2"});
    EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
    expect_all_met(o.out, ranks, 2, "PMI-1");
  }
}

TEST(LaunchThrough, MpichAtAPort_OfSeveralHosts_HandsOutNoSecret) {
  if (!is_there("mpirun.mpich")) GTEST_SKIP() << "mpirun.mpich is not installed";
  const Outcome o = run_program(
      {"mpirun.mpich", "-pmi-port", "-n", "2", "env", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=1", EXCHANGE_PROBE});
  EXPECT_THAT(o.out,
              AllOf(HasSubstr("Unavailable: PMI_PORT="), HasSubstr("SINEW_SECRET_FILE"), HasSubstr("-pmi-port")));
}

/// What flux run sets for a task of one host where it offers no PMI.
Strings flux(int rank, int ranks, const std::string& job) {
  return {fmt::format("FLUX_TASK_RANK={}", rank),
          fmt::format("FLUX_JOB_SIZE={}", ranks),
          fmt::format("FLUX_TASK_LOCAL_ID={}", rank),
          "FLUX_JOB_NNODES=1",
          "FLUX_JOB_ID=" + job,
          "SINEW_TIMEOUT=60s"};
}

TEST(LaunchThrough, VariablesOfAnotherLauncher_BringAllRanksOfAHostTogether) {
  for (const int ranks : {1, 3}) {
    const std::string job = fmt::format("f{:x}", random_id());
    std::vector<Strings> environments;
    for (int r = 0; r < ranks; ++r) environments.push_back(flux(r, ranks, job));
    std::string out;
    for (const Outcome& o : probe_each(environments, {"2"})) {
      EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
      out += o.out;
    }
    expect_all_met(out, ranks, 2, ranks == 1 ? "alone" : "another launcher's variables");
  }
}

/// Worlds before and after MPI_Init in one process, and an exchange over MPI itself.
[[maybe_unused]] void meet_beside_mpi(const Strings& launcher, const std::string& probe, const std::string& kind) {
  for (const std::string order : {"before", "after"}) {
    Strings command = launcher;
    command.insert(command.end(), {probe, "2", "100", order});
    const Outcome o = run_program(command, {"ASAN_OPTIONS=detect_leaks=0"});
    EXPECT_EQ(o.exit_code, 0) << order << "\n" << o.out << o.err;
    expect_all_met(o.out, 2, order == "before" ? 3 : 2, kind);
    EXPECT_THAT(o.out, AllOf(HasSubstr("mpi rank 0 of 2"), HasSubstr("mpi rank 1 of 2")));
  }
}

TEST(LaunchThrough, OpenMpi_MayBeInitialisedEarlierOrLater) {
#ifdef EXCHANGE_PROBE_OPENMPI
  if (!is_there("mpirun.openmpi")) GTEST_SKIP() << "mpirun.openmpi is not installed";
  meet_beside_mpi({"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "2"}, EXCHANGE_PROBE_OPENMPI,
                  "PMIx");
#else
  GTEST_SKIP() << "Open MPI's development files were not found";
#endif
}

TEST(LaunchThrough, Mpich_MayBeInitialisedEarlierOrLater) {
#ifdef EXCHANGE_PROBE_MPICH
  if (!is_there("mpirun.mpich")) GTEST_SKIP() << "mpirun.mpich is not installed";
  meet_beside_mpi({"mpirun.mpich", "-n", "2"}, EXCHANGE_PROBE_MPICH, "PMI-1");
  const Strings at_a_port = {"mpirun.mpich", "-pmi-port", "-n", "2", EXCHANGE_PROBE_MPICH, "2", "100"};
  Strings early = at_a_port, late = at_a_port;
  early.emplace_back("after");  // MPI_Init comes after the worlds
  late.emplace_back("before");
  const Strings without_leaks_of_mpi = {"ASAN_OPTIONS=detect_leaks=0"};
  const Outcome o = run_program(early, without_leaks_of_mpi);
  EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
  expect_all_met(o.out, 2, 2, "PMI-1");
  EXPECT_THAT(o.out, AllOf(HasSubstr("mpi rank 0 of 2"), HasSubstr("mpi rank 1 of 2")));
  EXPECT_THAT(run_program(late, without_leaks_of_mpi).out,
              AllOf(HasSubstr("Unavailable: PMI_PORT="), HasSubstr("make worlds before it")));
#else
  GTEST_SKIP() << "MPICH's development files were not found";
#endif
}

/// Four ranks in two network namespaces; ends with 77 where there are none.
Outcome on_two_hosts(const std::string& job) {
  const ScratchFolder key;  // of MUNGE, for the jobs that have nothing else
  return run_program({TWO_HOSTS, job, EXCHANGE_PROBE, SINEW_RUN},
                     {"ASAN_OPTIONS=detect_leaks=0", kNoMunge, "FAKE_MUNGE_FOLDER=" + key / ""});
}

class TwoHostsBy : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!is_there("ip")) GTEST_SKIP() << "iproute2 is not installed";
    const std::string program = GetParam() == "openmpi"           ? "mpirun.openmpi"
                                : GetParam().starts_with("mpich") ? "mpirun.mpich"
                                                                  : "sh";
    if (!is_there(program.c_str())) GTEST_SKIP() << program << " is not installed";
  }
};
INSTANTIATE_TEST_SUITE_P(Each, TwoHostsBy,
                         testing::Values("variables", "port_in_use", "munge", "munge_unknown_hosts", "sinew_run",
                                         "openmpi", "mpich", "mpich_port"),
                         [](const auto& job) { return job.param; });

TEST_P(TwoHostsBy, MeetOverTcp) {
  const Outcome o = on_two_hosts(GetParam());
  if (o.exit_code == 77) GTEST_SKIP() << o.out;
  EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
  expect_all_met(o.out, 4, 2, "");
  EXPECT_THAT(o.out, HasSubstr("rank 3 of 4"));
  EXPECT_THAT(o.out, HasSubstr("local 1 of 2"));
}

TEST(LaunchThrough, SecretsThatDifferBetweenHosts_AreSaid) {
  const Outcome o = on_two_hosts("wrong_secret");
  if (o.exit_code == 77 || !is_there("ip")) GTEST_SKIP() << o.out;
  EXPECT_THAT(o.out, AllOf(HasSubstr("Mismatch: 10.213.7.1:29600"), HasSubstr("SINEW_SECRET_FILE"),
                           HasSubstr("ranks 1, 2, 3 of 4 did not come")));
}

TEST(LaunchThrough, Alone_IsAWorldOfOne) {
  const Outcome o = run_program({EXCHANGE_PROBE, "2"});
  EXPECT_EQ(o.exit_code, 0);
  expect_all_met(o.out, 1, 2, "alone");
}

TEST(LaunchThrough, OpenMpiWhosePmixIsLost_MeetsByItsOtherVariables) {
  if (!is_there("mpirun.openmpi")) GTEST_SKIP() << "mpirun.openmpi is not installed";
  const Outcome o = run_program({"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "2", "env", "-u",
                                 "PMIX_RANK", "-u", "PMIX_NAMESPACE", EXCHANGE_PROBE, "2"});
  EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
  expect_all_met(o.out, 2, 2, "another launcher's variables");
}

TEST(LaunchThrough, MpichWhosePmiIsLost_IsAnErrorThatSaysHowManyRanksThereAre) {
  if (!is_there("mpirun.mpich")) GTEST_SKIP() << "mpirun.mpich is not installed";
  const Outcome o = run_program({"mpirun.mpich", "-n", "2", "env", "-u", "PMI_FD", EXCHANGE_PROBE});
  EXPECT_EQ(o.exit_code, kProbeError);
  EXPECT_THAT(o.out, AllOf(HasSubstr("Unavailable: PMI_SIZE=2: mpiexec of MPICH"), HasSubstr("rank 1 of 2"),
                           HasSubstr("sinew-run"), HasSubstr("SINEW_ALONE=1"), Not(HasSubstr("kind"))));
}

TEST(LaunchThrough, ServerOutOfReach_IsAnErrorThatSaysHowManyRanksThereAre) {
  const Outcome closed =
      run_program({"sh", "-c", fmt::format("PMI_RANK=0 PMI_SIZE=2 PMI_FD=7 exec {} 7>&-", EXCHANGE_PROBE)});
  EXPECT_EQ(closed.exit_code, kProbeError);
  EXPECT_THAT(closed.out,
              AllOf(HasSubstr("PMI_FD=7: asking the launcher"), HasSubstr("(PMI_SIZE=2)"), HasSubstr("SINEW_ALONE=1")));
  const std::string nobody = fmt::format("PMI_PORT=127.0.0.1:{}", some_port());
  const Outcome refused = run_program({EXCHANGE_PROBE}, {nobody, "PMI_ID=0"});
  EXPECT_EQ(refused.exit_code, kProbeError);
  EXPECT_THAT(refused.out,
              AllOf(HasSubstr(nobody + ": the launcher cannot be reached (127.0.0.1:"), HasSubstr("SINEW_ALONE=1")));
  for (const char* bad : {"", "node0", ":7000", "node0:", "node0:0", "node0:70000", "node0:x"}) {
    const Outcome o = run_program({EXCHANGE_PROBE}, {std::string("PMI_PORT=") + bad, "PMI_ID=0"});
    EXPECT_THAT(o.out, HasSubstr(fmt::format("PMI_PORT={}: expected HOST:PORT", bad)));
  }
}

TEST(LaunchThrough, Alone_IsWhatEachRankGetsThatAsksForIt) {
  for (Strings variables : {flux(1, 3, "f1"), srun(1, {2, 1}, 7), master(1, 4, 29500), Strings{"PMI_PORT=x:1"}}) {
    variables.emplace_back("SINEW_ALONE=1");
    const Outcome o = run_program({EXCHANGE_PROBE}, variables);
    EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
    expect_all_met(o.out, 1, 1, "alone");
  }
}

TEST(LaunchThrough, SinewRunsRanks_AreNotAlone) {
  const Outcome o = run_program({SINEW_RUN, "-n", "2", EXCHANGE_PROBE}, {"SINEW_ALONE=1"});
  EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
  expect_all_met(o.out, 2, 1, "RANK");
}

TEST(LaunchThrough, ProgramThatOneRankRunsAlone_LearnsHow) {
  Strings variables = flux(1, 3, fmt::format("f{:x}", random_id()));
  variables.emplace_back("SINEW_TIMEOUT=300ms");
  const Outcome o = run_program({EXCHANGE_PROBE}, variables);
  EXPECT_EQ(o.exit_code, kProbeError);
  EXPECT_THAT(o.out,
              AllOf(HasSubstr("rank 0 did not come"), HasSubstr("(FLUX_JOB_SIZE=3)"), HasSubstr("SINEW_ALONE=1")));
}

TEST(LaunchThrough, SecondJobOfOneName_LearnsWhoHasThePlace) {
  const std::string job = fmt::format("f{:x}", random_id());
  StoreServerThread server(StoreServerOptions{.secret = random_secret()});
  server.listen(listen_on(bootstrap_address(0, job)));
  const auto outcomes = probe_each({flux(0, 2, job)});
  EXPECT_THAT(outcomes[0].out, HasSubstr(fmt::format("process {} is rank 0 of job {}", ::getpid(), job)));
}

/// Runs the probe as the second program of a task: it inherits a line that the launcher has closed after the first.
Outcome probe_after_pmi(int rank, Strings environment) {
  constexpr const char* kAfterPmi =
      "import os, socket, sys\n"
      "line, launchers = socket.socketpair()\n"
      "launchers.close()\n"
      "os.dup2(line.fileno(), 9)\n"
      "os.execv(sys.argv[1], sys.argv[1:])\n";
  environment.insert(environment.begin(), {"PMI_FD=9", fmt::format("PMI_RANK={}", rank), "PMI_SIZE=2"});
  return run_program({"python3", "-c", kAfterPmi, EXCHANGE_PROBE, "2"}, environment);
}

TEST(LaunchThrough, PmiThatAnEarlierProgramHasEnded_GivesWayToSrunsVariables) {
  const int job = some_port();
  auto other = std::async(std::launch::async, [job] { return probe_after_pmi(1, srun(1, {2}, job)); });
  const Outcome first = probe_after_pmi(0, srun(0, {2}, job)), second = other.get();
  EXPECT_EQ(first.exit_code, 0) << first.out << first.err;
  EXPECT_EQ(second.exit_code, 0) << second.out << second.err;
  expect_all_met(first.out + second.out, 2, 2, "srun");
}

TEST(LaunchThrough, PmiThatAnEarlierProgramHasEnded_IsSaid) {
  const Strings beneath_srun = srun(1, {1, 1}, some_port(), {"MASTER_ADDR=203.0.113.7", kNoMunge});
  for (const Strings& variables : {Strings{}, beneath_srun}) {
    const Outcome o = probe_after_pmi(1, variables);
    EXPECT_EQ(o.exit_code, kProbeError);
    EXPECT_THAT(o.out, HasSubstr("PMI_FD=9: the launcher has closed this line, because an earlier program"));
  }
}

TEST(LaunchThrough, PmiServerThatSpeaksSomethingElse_IsUnavailable) {
  const Outcome o =
      run_program({"sh", "-c", fmt::format("PMI_RANK=0 PMI_SIZE=2 PMI_FD=7 exec {} 7</dev/null", EXCHANGE_PROBE)});
  EXPECT_EQ(o.exit_code, kProbeError);
  EXPECT_THAT(o.out, HasSubstr("PMI_FD=7"));
}

}  // namespace
}  // namespace sinew::test
