#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <support/scratch_folder.hpp>

#include "fake_rsh.hpp"
#include "run_job.hpp"

namespace sinew::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

TEST(SinewRunHosts, MeetOverTheLaunchersStore) {
  const FakeRsh rsh;
  const Outcome o = sinew_run({"--hosts", "a:2,localhost:1,b:2", EXCHANGE_PROBE, "2"}, {rsh.variable()});
  EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
  EXPECT_EQ(lines(o.out).size(), 10u);
  EXPECT_THAT(o.out, AllOf(HasSubstr("[4] world 1 rank 4 of 5"), HasSubstr("local 1 of 2"), HasSubstr("local 0 of 1")));
  const Strings commands = lines_of(rsh.log());
  EXPECT_EQ(commands.size(), 2u);
  for (const std::string& c : commands)
    EXPECT_TRUE(c.ends_with("sinew-run' --agent")) << "no secret, no more words: " << c;
}

TEST(SinewRunHosts, ForwardVariablesFolderAndInputs) {
  const FakeRsh rsh;
  const Outcome o = sinew_run(
      {"--hosts", "a:1", "--env", "COLOUR=it's blue", "-n", "1", "sh", "-c", "echo \"$COLOUR $SINEW_LOG $PWD\""},
      {rsh.variable(), "SINEW_LOG=error"});
  EXPECT_EQ(o.out, fmt::format("[0] it's blue error {}\n", std::filesystem::current_path().string())) << o.err;
}

TEST(SinewRunHosts, TakeWhatIsAskedFor_BeforeWhatTheLauncherOrTheirHostHas) {
  const FakeRsh rsh("export SINEW_LOG=warning SINEW_JOB=there");
  const Outcome o = sinew_run({"--hosts", "a:1", "--env", "SINEW_LOG=info", "env"},
                              {rsh.variable(), "SINEW_LOG=error", "SINEW_JOB=stale"});
  Strings said;
  for (const std::string& line : lines(o.out)) {
    if (line.starts_with("[0] SINEW_LOG=") || line.starts_with("[0] SINEW_JOB=")) said.push_back(line);
  }
  EXPECT_THAT(said, UnorderedElementsAre("[0] SINEW_LOG=info", AllOf(HasSubstr("SINEW_JOB="), Not(HasSubstr("stale")),
                                                                     Not(HasSubstr("there")))))
      << o.err;
  const Outcome met = sinew_run({"--hosts", "a:2", EXCHANGE_PROBE}, {rsh.variable(), "SINEW_JOB=stale"});
  EXPECT_EQ(met.exit_code, 0) << met.out << met.err;
}

TEST(SinewRunHosts, FindTheProgram_InThePathThatTravels) {
  const ScratchFolder folder;
  std::ofstream(folder / "only-there") << "#!/bin/sh\necho found\n";
  std::filesystem::permissions(folder / "only-there", std::filesystem::perms::owner_all);
  const FakeRsh rsh("PATH=/usr/bin:/bin");
  const std::string path = fmt::format("PATH={}:/usr/bin:/bin", folder / "");
  const Outcome travelled = sinew_run({"--hosts", "a:1", "only-there"}, {rsh.variable(), path});
  EXPECT_EQ(travelled.out, "[0] found\n") << travelled.err;
  for (const char* host : {"a:1", "localhost:1"}) {
    const Outcome asked = sinew_run({"--hosts", host, "--env", path, "only-there"}, {rsh.variable()});
    EXPECT_EQ(asked.out, "[0] found\n") << host << asked.err;
  }
}

TEST(SinewRunHosts, EndTogether) {
  const FakeRsh rsh;
  const ScratchFolder folder;
  const Outcome o = run_script(
      4,
      fmt::format(
          "echo $$ >> {0}; [ $RANK = 3 ] && while [ $(wc -l < {0}) -lt 4 ]; do :; done && kill -SEGV $$; sleep 1000",
          folder / "pids"),
      {"--hosts", "a:2,b:2"}, {rsh.variable()});
  EXPECT_EQ(o.exit_code, 128 + SIGSEGV);
  EXPECT_THAT(o.err, HasSubstr("rank 3 was killed by SIGSEGV"));
  for (const std::string& pid : lines_of(folder / "pids")) EXPECT_TRUE(gone(pid));
}

TEST(SinewRunHosts, SaySo_WhenAHostCannotBeReached) {
  const Outcome o = sinew_run({"--hosts", "a:2,b:1", "sleep", "1000"}, {"SINEW_RSH=false"});
  EXPECT_EQ(o.exit_code, 255);
  EXPECT_THAT(o.err, AllOf(HasSubstr("host a: "), HasSubstr("ranks 0, 1 lost")));
  EXPECT_THAT(o.err, HasSubstr("make `false a true` work without a password"));
  const Outcome words = sinew_run({"--hosts", "a:1", "true"}, {"SINEW_RSH=false -p  2222"});
  EXPECT_THAT(words.err, HasSubstr("cure: make `false -p 2222 a true` work without a password, and have sinew on"));
  const FakeRsh rsh;
  const Outcome none = sinew_run({"--hosts", "a:2", "/no/such/program"}, {rsh.variable()});
  EXPECT_EQ(none.exit_code, 255);
  EXPECT_THAT(none.err, HasSubstr("/no/such/program: No such file"));
}

/// An allocation of two nodes that are not this host, with room for two tasks and for one.
Strings allocation(const FakeRsh& rsh) {
  return {"SLURM_JOB_NODELIST=n[1-2]", "SLURM_TASKS_PER_NODE=2,1", "SLURM_JOB_NUM_NODES=2", rsh.variable()};
}

TEST(SinewRunSlurm, StartsTheAllocationsTasks_OnItsNodes) {
  for (const Strings& arguments : {Strings{EXCHANGE_PROBE}, Strings{"--hosts", "slurm", EXCHANGE_PROBE}}) {
    const FakeRsh rsh;
    const Outcome o = sinew_run(arguments, allocation(rsh));
    EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
    EXPECT_THAT(o.out, AllOf(HasSubstr("[1] world 0 rank 1 of 3"), HasSubstr("local 1 of 2"), HasSubstr("[2] ")));
    const Strings commands = lines_of(rsh.log());
    ASSERT_EQ(commands.size(), 2u);
    EXPECT_EQ((std::set{commands[0].substr(0, 3), commands[1].substr(0, 3)}), (std::set<std::string>{"n1 ", "n2 "}));
  }
}

TEST(SinewRunSlurm, ReachesItsNodesThroughSrun_UnlessSinewRshSaysOtherwise) {
  const FakeSrun srun;
  const FakeRsh rsh;
  Strings variables = allocation(rsh);
  variables.back() = srun.variable();
  const Outcome o = sinew_run({EXCHANGE_PROBE}, variables);
  EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
  EXPECT_THAT(o.out, AllOf(HasSubstr("[1] world 0 rank 1 of 3"), HasSubstr("local 1 of 2"), HasSubstr("[2] ")));
  const Strings commands = lines_of(srun.log());
  ASSERT_EQ(commands.size(), 2u);
  std::set<std::string> nodes;
  for (const std::string& c : commands) {
    EXPECT_THAT(c, AllOf(HasSubstr("--overlap -N1 -n1 "), HasSubstr("--cpu-bind=none")));
    EXPECT_TRUE(c.ends_with("sinew-run --agent")) << "no shell is there to take off quotes: " << c;
    nodes.insert(c.substr(c.find("-w "), 5));
  }
  EXPECT_EQ(nodes, (std::set<std::string>{"-w n1", "-w n2"}));

  variables.push_back(rsh.variable());
  EXPECT_EQ(sinew_run({"true"}, variables).exit_code, 0);
  EXPECT_EQ(lines_of(srun.log()).size(), 2u) << "SINEW_RSH counts";
  EXPECT_EQ(lines_of(rsh.log()).size(), 2u);
  EXPECT_EQ(sinew_run({"--hosts", "localhost:1", "true"}, {srun.variable()}).exit_code, 0);
}

TEST(SinewRunSlurm, NamesACommandOfSruns_WhenANodeCannotBeReached) {
  const ScratchFolder folder;
  std::filesystem::create_symlink("/bin/false", folder / "srun");
  const FakeRsh rsh;
  Strings variables = allocation(rsh);
  variables.back() = fmt::format("PATH={}:/usr/bin:/bin", folder / "");
  const Outcome o = sinew_run({"true"}, variables);
  EXPECT_EQ(o.exit_code, 255);
  EXPECT_THAT(o.err,
              HasSubstr("make `srun --overlap -N1 -n1 --ntasks-per-node=1 --mpi=none --cpu-bind=none -w n1 true` "
                        "work without a password"));
}

TEST(SinewRunSlurm, TakesTheFirstRanks_AndNoMoreThanThereAre) {
  const FakeRsh rsh;
  const Outcome two = sinew_run({"-n", "2", "sh", "-c", "echo $LOCAL_WORLD_SIZE"}, allocation(rsh));
  EXPECT_EQ(two.exit_code, 0) << two.err;
  EXPECT_THAT(two.out, AllOf(HasSubstr("[0] 2\n"), HasSubstr("[1] 2\n")));
  EXPECT_EQ(lines_of(rsh.log()).size(), 1u) << "the second node is not asked";
  const Outcome four = sinew_run({"-n", "4", "true"}, allocation(rsh));
  EXPECT_EQ(four.exit_code, 2);
  EXPECT_EQ(lines(four.err).size(), 1u) << four.err;
  EXPECT_THAT(four.err, HasSubstr("-n 4: Slurm's allocation has places for 3 ranks only"));
}

TEST(SinewRunSlurm, StartsRanksHere_WhereTheNodeIsThisHost) {
  const Strings here = {"SLURM_JOB_NODELIST=own", "SLURM_TASKS_PER_NODE=2", "SLURMD_NODENAME=own", "SINEW_RSH=false"};
  const Outcome all = sinew_run({"sh", "-c", "echo $WORLD_SIZE"}, here);
  EXPECT_THAT(all.out, AllOf(HasSubstr("[0] 2\n"), HasSubstr("[1] 2\n"))) << all.err;
  const Outcome more = sinew_run({"-n", "3", "sh", "-c", "echo $WORLD_SIZE"}, here);
  EXPECT_THAT(more.out, HasSubstr("[2] 3\n")) << more.err;
}

TEST(SinewRunSlurm, LeavesTheNodesAlone_WhenHostsAreNamed_OrSrunHasStartedSeveral) {
  const FakeRsh rsh;
  EXPECT_EQ(sinew_run({"--hosts", "localhost:2", "true"}, allocation(rsh)).exit_code, 0);
  Strings task = allocation(rsh);
  for (const char* v : {"SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=3"}) task.emplace_back(v);
  EXPECT_EQ(sinew_run({"-n", "5", "true"}, task).exit_code, 0);
  EXPECT_EQ(std::filesystem::exists(rsh.log()), false) << "nobody was called";
  for (const Strings& environment : {task, Strings{}}) {
    const Outcome o = sinew_run({"--hosts", "slurm", "true"}, environment);
    EXPECT_EQ(o.exit_code, 2);
    EXPECT_EQ(lines(o.err).size(), 1u) << o.err;
    EXPECT_THAT(o.err, HasSubstr("--hosts slurm: this is no shell of an allocation"));
  }
}

/// A remote shell that never gets anywhere; says so in a file.
struct HungRsh {
  explicit HungRsh(const std::string& before = "") {
    const std::string path = folder / "rsh";
    std::ofstream(path) << "#!/bin/sh\n" << before << "\necho $$ >> " << (folder / "pids") << "\nsleep 1000\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  /// Of a job on two hosts, once both shells run.
  Strings pids() const { return wait_for_lines(folder / "pids", 2); }
  std::string variable() const { return "SINEW_RSH=" + folder / "rsh"; }
  ScratchFolder folder;
};

TEST(SinewRunHosts, NameTheHost_WhenItDoesNotAnswerInTime) {
  const HungRsh rsh;
  const auto start = std::chrono::steady_clock::now();
  const Outcome o = sinew_run({"--hosts", "a:1,b:1", "sleep", "1000"}, {rsh.variable(), "SINEW_TIMEOUT=500ms"});
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
  EXPECT_EQ(o.exit_code, 255);
  EXPECT_THAT(o.err, AllOf(HasSubstr("host a: no answer within 0.5 s (SINEW_TIMEOUT)"), HasSubstr("rank 0 lost")));
  for (const std::string& pid : rsh.pids()) EXPECT_TRUE(gone(pid)) << pid;
}

/// As the master of a connection that ssh shares does.
TEST(SinewRunHosts, AreLostWithTheRemoteShell_ThoughSomethingThatItStartedHoldsItsOutput) {
  const ScratchFolder folder;
  const FakeRsh rsh(fmt::format("setsid sleep 60 2>/dev/null & echo $! >> {}", folder / "pids"));
  const auto before = std::chrono::steady_clock::now();
  const Outcome o = sinew_run({"--hosts", "a:1", "sh", "-c", "kill -9 $PPID; sleep 60"}, {rsh.variable()});
  EXPECT_LT(std::chrono::steady_clock::now() - before, 30s);
  EXPECT_EQ(o.exit_code, 255);
  EXPECT_THAT(o.err, AllOf(HasSubstr("host a: the connection to its sinew-run "), HasSubstr("; rank 0 lost")));
  for (const std::string& pid : lines_of(folder / "pids")) ::kill(std::stoi(pid), SIGKILL);
}

TEST(SinewRunHosts, EndTheRemoteShell_WhenTheJobIsEndedBeforeItAnswers) {
  const HungRsh rsh;
  const std::string large = "LARGE=" + std::string(100'000, 'x');  // more than a pipe holds by itself
  Running job({"--hosts", "a:1,b:1", "--env", large, "sleep", "1000"}, {rsh.variable()});
  const Strings pids = rsh.pids();
  ::kill(job.pid(), SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  for (const std::string& pid : pids) EXPECT_TRUE(gone(pid)) << pid;
}

TEST(SinewRunHosts, KillTheRemoteShell_WhenItIgnoresSigterm) {
  const HungRsh rsh("trap '' TERM");
  Running job({"--hosts", "a:1,b:1", "sleep", "1000"}, {rsh.variable()});
  const Strings pids = rsh.pids();
  ::kill(job.pid(), SIGTERM);
  std::this_thread::sleep_for(200ms);  // two signals, not one
  const auto start = std::chrono::steady_clock::now();
  ::kill(job.pid(), SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
  for (const std::string& pid : pids) EXPECT_TRUE(gone(pid)) << pid;
}

/// Ranks on two other hosts that ignore SIGTERM; each says so in `folder`/ready.
Strings stubborn_elsewhere(const ScratchFolder& folder, const std::string& grace) {
  const std::string rank = fmt::format("trap '' TERM; echo $$ >> {}; while :; do sleep 0.05; done", folder / "ready");
  return {"--hosts", "a:1,b:1", "--grace", grace, "sh", "-c", rank};
}

TEST(SinewRunHosts, AreKilledAfterTheGrace_WhenTheyIgnoreSigterm) {
  const FakeRsh rsh;
  const ScratchFolder folder;
  Running job(stubborn_elsewhere(folder, "500ms"), {rsh.variable()});
  const Strings pids = wait_for_lines(folder / "ready", 2);
  const auto start = std::chrono::steady_clock::now();
  ::kill(job.pid(), SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 500ms);
  for (const std::string& pid : pids) EXPECT_TRUE(gone(pid)) << pid;
}

TEST(SinewRunHosts, EndAtOnce_WhenASecondSignalAsksForIt) {
  const FakeRsh rsh;
  const ScratchFolder folder;
  Running job(stubborn_elsewhere(folder, "1h"), {rsh.variable()});
  const Strings pids = wait_for_lines(folder / "ready", 2);
  ::kill(job.pid(), SIGTERM);
  std::this_thread::sleep_for(200ms);  // two signals, not one
  const auto start = std::chrono::steady_clock::now();
  ::kill(job.pid(), SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  for (const std::string& pid : pids) EXPECT_TRUE(gone(pid)) << pid;
}

TEST(SinewRunHosts, EndAfterSigkill_WhenTheAgentReportsNoMore) {
  const FakeRsh rsh;
  const ScratchFolder folder;
  Running job({"--hosts", "a:1", "sh", "-c", fmt::format("echo $PPID >> {}; exec sleep 1000", folder / "agent")},
              {rsh.variable()});
  const Strings agent = wait_for_lines(folder / "agent", 1);
  ASSERT_EQ(agent.size(), 1u);
  ::kill(std::stoi(agent[0]), SIGSTOP);
  ::kill(job.pid(), SIGTERM);
  std::this_thread::sleep_for(200ms);
  ::kill(job.pid(), SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  EXPECT_TRUE(gone(agent[0]));
}

}  // namespace
}  // namespace sinew::test
