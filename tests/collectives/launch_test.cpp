#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/random.hpp>
#include <sinew/core/secret.hpp>
#include <sinew/core/socket_address.hpp>
#include <sinew/core/store_server.hpp>
#include <support/run_program.hpp>

namespace sinew {
namespace {

using test::Outcome;
using test::run_program;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Strings = std::vector<std::string>;

constexpr int kError = 3;  // what the probe ends with after an Error

/// A MASTER_PORT for one test, free as this is asked, and below those that the kernel gives to other programs' sockets.
int some_port() {
  int lowest_given = 32768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> lowest_given;
  constexpr int kLowest = 10000;
  for (;;) {
    const auto port = static_cast<std::uint16_t>(kLowest + random_id() % std::max(lowest_given - kLowest, 1000));
    try {
      return listen_everywhere(0, std::pair{port, port}).address.port();
    } catch (const Error&) {  // taken: another
    }
  }
}

Strings master(int rank, int ranks, int port, const Strings& more = {}) {
  Strings all = {fmt::format("RANK={}", rank), fmt::format("WORLD_SIZE={}", ranks), "MASTER_ADDR=127.0.0.1",
                 fmt::format("MASTER_PORT={}", port), "SINEW_TIMEOUT=60s"};
  all.insert(all.end(), more.begin(), more.end());  // the last of a name counts
  return all;
}

/// Runs the probe once per environment, all at the same time.
std::vector<Outcome> probe_each(const std::vector<Strings>& environments, const Strings& arguments = {}) {
  Strings command = {EXCHANGE_PROBE};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<Outcome> outcomes(environments.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < environments.size(); ++i) {
    threads.emplace_back([&, i] { outcomes[i] = run_program(command, environments[i]); });
  }
  for (auto& t : threads) t.join();
  return outcomes;
}

/// Every rank must have said so once per world.
void expect_all_met(const std::string& out, int ranks, int worlds, const std::string& kind) {
  for (int w = 0; w < worlds; ++w) {
    for (int r = 0; r < ranks; ++r) {
      EXPECT_THAT(out, HasSubstr(fmt::format("world {} rank {} of {} kind {}", w, r, ranks, kind)));
    }
  }
  EXPECT_THAT(out, Not(HasSubstr("DIFFERS")));
}

bool is_there(const char* program) {
  return std::system(fmt::format("command -v {} >/dev/null", program).c_str()) == 0;
}

class SecretFile {
 public:
  explicit SecretFile(std::string_view text) {
    std::ofstream(path_) << text;
    ::chmod(path_.c_str(), S_IRUSR);
  }
  ~SecretFile() { std::filesystem::remove(path_); }
  std::string variable() const { return "SINEW_SECRET_FILE=" + path_; }

 private:
  std::string path_ = fmt::format("{}/sinew-secret-{:x}", testing::TempDir(), random_id());
};

class LaunchOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, LaunchOf, testing::Values(1, 2, 4, 7));

/// What srun sets for a task, where nodes have so many of them.
Strings srun(int task, const std::vector<int>& nodes, int job, const Strings& more = {}) {
  int tasks = 0, node = 0, first = 0;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (task >= tasks) node = static_cast<int>(n), first = tasks;
    tasks += nodes[n];
  }
  Strings all = {fmt::format("SLURM_JOB_ID={}", job),
                 "SLURM_STEP_ID=0",
                 fmt::format("SLURM_PROCID={}", task),
                 fmt::format("SLURM_LOCALID={}", task - first),
                 fmt::format("SLURM_NODEID={}", node),
                 fmt::format("SLURM_STEP_NUM_TASKS={}", tasks),
                 fmt::format("SLURM_STEP_NODELIST=node[1-{}]", nodes.size()),
                 fmt::format("SLURM_STEP_TASKS_PER_NODE={}", fmt::join(nodes, ",")),
                 "SINEW_TIMEOUT=60s"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

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
    EXPECT_EQ(o.exit_code, kError);
    EXPECT_THAT(o.err + o.out, AllOf(HasSubstr("of 3 here"), HasSubstr("SINEW_SECRET_FILE")));
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

TEST_P(LaunchOf, OpenMpi_BringsAllRanksTogether) {
  if (!is_there("mpirun.openmpi")) GTEST_SKIP() << "mpirun.openmpi is not installed";
  const Outcome o = run_program({"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n",
                                 fmt::format("{}", GetParam()), EXCHANGE_PROBE, "2"},
                                {"ASAN_OPTIONS=detect_leaks=0"});  // libpmix's own
  EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
  expect_all_met(o.out, GetParam(), 2, SINEW_TEST_PMIX ? "PMIx" : "no PMIx in this build");
}

TEST_P(LaunchOf, Mpich_BringsAllRanksTogether) {
  if (!is_there("mpirun.mpich")) GTEST_SKIP() << "mpirun.mpich is not installed";
  const Outcome o = run_program({"mpirun.mpich", "-n", fmt::format("{}", GetParam()), EXCHANGE_PROBE, "2"});
  EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
  expect_all_met(o.out, GetParam(), 2, GetParam() == 1 ? "PMI-1" : "PMI-1 local");
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

TEST(Launch, OpenMpi_MayBeInitialisedEarlierOrLater) {
#ifdef EXCHANGE_PROBE_OPENMPI
  if (!is_there("mpirun.openmpi")) GTEST_SKIP() << "mpirun.openmpi is not installed";
  meet_beside_mpi({"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "2"}, EXCHANGE_PROBE_OPENMPI,
                  "PMIx");
#else
  GTEST_SKIP() << "Open MPI's development files were not found";
#endif
}

TEST(Launch, Mpich_MayBeInitialisedEarlierOrLater) {
#ifdef EXCHANGE_PROBE_MPICH
  if (!is_there("mpirun.mpich")) GTEST_SKIP() << "mpirun.mpich is not installed";
  meet_beside_mpi({"mpirun.mpich", "-n", "2"}, EXCHANGE_PROBE_MPICH, "PMI-1");
#else
  GTEST_SKIP() << "MPICH's development files were not found";
#endif
}

/// Four ranks in two network namespaces; ends with 77 where there are none.
Outcome on_two_hosts(const std::string& job) {
  return run_program({TWO_HOSTS, job, EXCHANGE_PROBE, SINEW_RUN}, {"ASAN_OPTIONS=detect_leaks=0"});
}

class TwoHostsBy : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!is_there("ip")) GTEST_SKIP() << "iproute2 is not installed";
    const std::string program = GetParam() == "openmpi" ? "mpirun.openmpi"
                                : GetParam() == "mpich" ? "mpirun.mpich"
                                                        : "sh";
    if (!is_there(program.c_str())) GTEST_SKIP() << program << " is not installed";
  }
};
INSTANTIATE_TEST_SUITE_P(Each, TwoHostsBy, testing::Values("variables", "sinew_run", "openmpi", "mpich"),
                         [](const auto& job) { return job.param; });

TEST_P(TwoHostsBy, MeetOverTcp) {
  const Outcome o = on_two_hosts(GetParam());
  if (o.exit_code == 77) GTEST_SKIP() << o.out;
  EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
  expect_all_met(o.out, 4, 2, "");
  EXPECT_THAT(o.out, HasSubstr("rank 3 of 4"));
  EXPECT_THAT(o.out, HasSubstr("local 1 of 2"));
}

TEST(Launch, SecretsThatDifferBetweenHosts_AreSaid) {
  const Outcome o = on_two_hosts("wrong_secret");
  if (o.exit_code == 77 || !is_there("ip")) GTEST_SKIP() << o.out;
  EXPECT_THAT(o.out, AllOf(HasSubstr("Mismatch: 10.213.7.1:29600"), HasSubstr("SINEW_SECRET_FILE"),
                           HasSubstr("ranks 1, 2, 3 of 4 did not come")));
}

TEST(Launch, Alone_IsAWorldOfOne) {
  const Outcome o = run_program({EXCHANGE_PROBE, "2"});
  EXPECT_EQ(o.exit_code, 0);
  expect_all_met(o.out, 1, 2, "alone");
}

TEST(Launch, MissingRanks_AreNamed) {
  const int port = some_port();
  const auto outcomes =
      probe_each({master(0, 4, port, {"SINEW_TIMEOUT=1s"}), master(2, 4, port, {"SINEW_TIMEOUT=1s"})});
  for (const Outcome& o : outcomes) {
    EXPECT_EQ(o.exit_code, kError);
    EXPECT_THAT(o.out, AllOf(HasSubstr("Timeout"), HasSubstr("ranks 1, 3 of 4 did not come")));
  }
}

TEST(Launch, MissingRank0_IsNamed) {
  const auto outcomes = probe_each({master(1, 2, some_port(), {"SINEW_TIMEOUT=300ms"})});
  EXPECT_EQ(outcomes[0].exit_code, kError);
  EXPECT_THAT(outcomes[0].out, AllOf(HasSubstr("Timeout"), HasSubstr("rank 0 did not come")));
}

TEST(Launch, WrongWorldSize_IsRefusedWithBothNumbers_OnAllRanks) {
  const int port = some_port();
  const auto outcomes = probe_each({master(0, 2, port), master(1, 3, port)});
  for (const auto& o : outcomes) {
    EXPECT_EQ(o.exit_code, kError);
    EXPECT_THAT(o.out, AllOf(HasSubstr("Mismatch"), HasSubstr("rank 1"), HasSubstr("has 3 ranks, but it has 2")));
  }
}

TEST(Launch, SecondRank0_LearnsWhoHasThePlace) {
  const int port = some_port();
  auto server = std::make_unique<StoreServer>(StoreServerOptions{.secret = random_secret()});
  server->listen(listen_on(meeting_place(static_cast<std::uint16_t>(port), "")));
  const StoreServerThread thread(std::move(server));
  const auto outcomes = probe_each({master(0, 2, port)});
  EXPECT_EQ(outcomes[0].exit_code, kError);
  EXPECT_THAT(outcomes[0].out, AllOf(HasSubstr(fmt::format("process {} is rank 0", ::getpid())),
                                     HasSubstr(fmt::format("MASTER_PORT={}", port))));
}

TEST(Launch, LauncherThatDoesNotAnswer_IsNotTakenForNone) {
  const int port = some_port();
  const Listener busy = listen_on(meeting_place(static_cast<std::uint16_t>(port), "of-this-launcher"));
  for (const auto& o : probe_each({master(0, 2, port, {"SINEW_JOB=of-this-launcher", "SINEW_TIMEOUT=200ms"}),
                                   master(1, 2, port, {"SINEW_JOB=of-this-launcher", "SINEW_TIMEOUT=200ms"})})) {
    EXPECT_EQ(o.exit_code, kError);
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
  EXPECT_EQ(outcomes[0].exit_code, kError);
  EXPECT_THAT(outcomes[0].out, AllOf(HasSubstr(fmt::format("port {}", occupant.address.port())), HasSubstr("in use")));
}

TEST(Launch, SeveralHosts_NeedASecret) {
  const auto remote = probe_each({master(1, 2, some_port(), {"MASTER_ADDR=203.0.113.7"})});
  EXPECT_EQ(remote[0].exit_code, kError);
  EXPECT_THAT(remote[0].out, AllOf(HasSubstr("Unavailable"), HasSubstr("203.0.113.7"), HasSubstr("SINEW_SECRET_FILE")));
  const auto half = probe_each({master(0, 2, some_port(), {"LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1"})});
  EXPECT_EQ(half[0].exit_code, kError);
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
  EXPECT_EQ(o.exit_code, kError);
  EXPECT_THAT(o.out, HasSubstr("RANK, MASTER_PORT set, but WORLD_SIZE, MASTER_ADDR missing"));
}

TEST(Launch, UnknownHostName_IsNamed) {
  const auto outcomes = probe_each({master(1, 2, some_port(), {"MASTER_ADDR=no-such-host.invalid"})});
  EXPECT_EQ(outcomes[0].exit_code, kError);
  EXPECT_THAT(outcomes[0].out, HasSubstr("host name 'no-such-host.invalid' cannot be looked up"));
}

TEST(Launch, PmiServerThatSpeaksSomethingElse_IsUnavailable) {
  const Outcome o =
      run_program({"sh", "-c", fmt::format("PMI_RANK=0 PMI_SIZE=2 PMI_FD=7 exec {} 7</dev/null", EXCHANGE_PROBE)});
  EXPECT_EQ(o.exit_code, kError);
  EXPECT_THAT(o.out, HasSubstr("PMI_FD=7"));
}

}  // namespace
}  // namespace sinew
