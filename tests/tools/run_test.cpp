#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <support/scratch_folder.hpp>

#include "run_job.hpp"

namespace sinew::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

TEST(SinewRun, GivesEveryRankItsVariables) {
  const Outcome o = run_script(3, "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR");
  EXPECT_EQ(o.exit_code, 0);
  EXPECT_THAT(lines(o.out),
              UnorderedElementsAre("[0] 0 3 0 3 127.0.0.1", "[1] 1 3 1 3 127.0.0.1", "[2] 2 3 2 3 127.0.0.1"));
  EXPECT_EQ(o.err, "");
  const Outcome job = run_script(2, "echo $MASTER_PORT $SINEW_JOB");
  const Strings said = lines(job.out);
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[0].substr(4), said[1].substr(4));
  EXPECT_GT(said[0].size(), 20u);
}

TEST(SinewRun, SaysInItsUsageWhatItStarts) {
  EXPECT_THAT(sinew_run({"--help"}).out, HasSubstr("Usage: sinew-run [OPTIONS] PROGRAM ARGS..."));
}

TEST(SinewRun, ServesTheStoreOfItsRanks) {
  for (const int ranks : {1, 2, 7}) {
    const Outcome o = sinew_run({"-n", fmt::format("{}", ranks), EXCHANGE_PROBE, "2"});
    EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
    EXPECT_EQ(lines(o.out).size(), static_cast<std::size_t>(2 * ranks));
  }
}

TEST(SinewRun, StartsAWorldOf64Processes) {
  const Outcome o = sinew_run({"-n", "64", EXCHANGE_PROBE});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_EQ(lines(o.out).size(), 64u);
}

/// sinew-run where it may open so many files, and may not raise that.
Outcome run_with_descriptors(int limit, const std::string& arguments) {
  return run_program({"bash", "-c", fmt::format("ulimit -n {}; exec {} {}", limit, SINEW_RUN, arguments)});
}

TEST(SinewRun, StartsMoreRanks_ThanItMayWatchByItself) {
  const Outcome o = run_with_descriptors(
      120, "-n 24 bash -c 'echo $RANK $LOCAL_RANK $LOCAL_WORLD_SIZE; [ $RANK != 23 ] || { sleep 0.5; exit 7; }'");
  EXPECT_EQ(o.exit_code, 7) << o.err;
  for (int r = 0; r < 24; ++r) EXPECT_THAT(o.out, HasSubstr(fmt::format("[{0}] {0} {0} 24\n", r)));
  EXPECT_THAT(o.err, HasSubstr("the job failed: rank 23 on host "));
  const Outcome met = run_with_descriptors(120, fmt::format("-n 24 {}", EXCHANGE_PROBE));
  EXPECT_EQ(met.exit_code, 0) << met.err;
  EXPECT_EQ(lines(met.out).size(), 24u);
}

TEST(SinewRun, SaysSo_WhereItMayNotEvenServeItsRanks) {
  if (run_program({"bash", "-c", "ulimit -n 80; ulimit -n 100"}).exit_code == 0)
    GTEST_SKIP() << "this user may raise its limits";
  const Outcome o = run_with_descriptors(80, "-n 24 true");
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_EQ(lines(o.err).size(), 1u) << o.err;
  EXPECT_THAT(
      o.err, HasSubstr("24 ranks: sinew-run needs a descriptor for each, and too few are allowed; expected ulimit -n"));
}

TEST(SinewRun, PrintsWholeLines_HoweverLongAndHoweverWritten) {
  const Outcome o = run_script(4,
                               "for i in 1 2 3 4 5; do printf 'begin '; head -c 100000 /dev/zero | tr '\\0' $RANK; "
                               "echo ' end'; done; printf tail");
  EXPECT_EQ(o.exit_code, 0);
  const Strings all = lines(o.out);
  EXPECT_EQ(all.size(), 4u * 6);
  for (const std::string& line : all) {
    const std::string digit = line.substr(1, 1);
    if (line.ends_with("tail")) continue;
    ASSERT_EQ(line, fmt::format("[{}] begin {} end", digit, std::string(100000, digit[0])));
  }
}

TEST(SinewRun, LeavesPrefixesOut_WhenAsked) {
  const Outcome o = run_script(2, "echo $RANK; printf more", {"--no-prefix"});
  EXPECT_THAT(lines(o.out), UnorderedElementsAre("0", "1", "moremore"));
}

TEST(SinewRun, KeepsOutputAndErrorsApart) {
  const Outcome o = run_script(2, "echo out; echo err >&2");
  EXPECT_THAT(lines(o.out), UnorderedElementsAre("[0] out", "[1] out"));
  EXPECT_THAT(lines(o.err), UnorderedElementsAre("[0] err", "[1] err"));
}

TEST(SinewRun, EndsTheOthers_WhenARankFails) {
  const Outcome o = run_script(3, "[ $RANK = 1 ] && exit 7; sleep 1000");
  EXPECT_EQ(o.exit_code, 7);
  EXPECT_THAT(o.err, AllOf(HasSubstr("rank 1 ended with exit code 7"), HasSubstr("ending the other 2 ranks")));
}

/// Ranks that ignore what asks them to end; each says in `folder`/ready when it does.
std::string stubborn(const ScratchFolder& folder) {
  return fmt::format("trap '' TERM INT HUP; echo $$ >> {}; while :; do sleep 0.05; done", folder / "ready");
}

TEST(SinewRun, KillsAfterTheGrace_WhoeverIgnoresSigterm) {
  const ScratchFolder folder;
  const Outcome o = run_script(2,
                               fmt::format("[ $RANK = 1 ] && {{ until [ -s {} ]; do sleep 0.05; done; exit 7; }}; {}",
                                           folder / "ready", stubborn(folder)),
                               {"--grace", "500ms"});
  EXPECT_EQ(o.exit_code, 7);
  EXPECT_THAT(o.err, HasSubstr("1 rank did not end within 0.5 s of SIGTERM (--grace), so SIGKILL ends it"));
}

TEST(SinewRun, KillsAfterTheGrace_WhoeverIgnoresAUsersSignal) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    const ScratchFolder folder;
    Running job({"-n", "2", "--grace", "500ms", "sh", "-c", stubborn(folder)});
    wait_for_lines(folder / "ready", 2);
    const auto start = std::chrono::steady_clock::now();
    ::kill(job.pid(), number);
    EXPECT_EQ(job.wait(), 128 + number);
    EXPECT_GE(std::chrono::steady_clock::now() - start, 500ms);
  }
}

TEST(SinewRun, LetsRanksEndInPeace_WithinTheGrace) {
  const ScratchFolder folder;
  Running job({"-n", "2", "--grace", "1h", "sh", "-c",
               fmt::format("trap 'until [ -s {1} ]; do sleep 0.05; done; exit 3' TERM; echo x >> {0}; "
                           "while :; do sleep 0.05; done",
                           folder / "ready", folder / "go")});
  wait_for_lines(folder / "ready", 2);
  ::kill(job.pid(), SIGTERM);
  std::ofstream(folder / "go") << "go\n";
  EXPECT_EQ(job.wait(), 3);
}

TEST(SinewRun, AsksOnce_WhenARankEndsByAUsersSignal) {
  for (const int number : {SIGTERM, SIGHUP}) {
    const ScratchFolder folder;
    Running job({"-n", "2", "--grace", "1h", "sh", "-c",
                 fmt::format("echo x >> {0}; [ $RANK = 1 ] && exec sleep 1000; "
                             "trap 'echo term >> {1}' TERM HUP; "
                             "until [ $(wc -l < {0}) -ge 3 ]; do sleep 0.05; done; sleep 0.3",
                             folder / "ready", folder / "got")});
    wait_for_lines(folder / "ready", 2);
    ::kill(job.pid(), number);
    wait_for_lines(folder / "got", 1);
    std::ofstream(folder / "ready", std::ios::app) << "go\n";
    EXPECT_EQ(job.wait(), 128 + number);
    EXPECT_EQ(lines_of(folder / "got").size(), 1u) << "it may take a second signal for an order to end at once";
  }
}

TEST(SinewRun, LeavesARankTheGraceAfterCtrlC_WhenAnotherRankHasEnded) {
  const ScratchFolder folder;
  Running job({"-n", "2", "--grace", "1h", "sh", "-c",
               fmt::format("[ $RANK = 0 ] && trap 'sleep 0.5; echo saved >> {1}; exit 3' INT || trap 'exit 4' INT; "
                           "echo x >> {0}; while :; do sleep 0.05; done",
                           folder / "ready", folder / "saved")});
  wait_for_lines(folder / "ready", 2);
  ::kill(job.pid(), SIGINT);
  EXPECT_EQ(job.wait(), 4) << "the exit code of the first rank that failed";
  EXPECT_EQ(lines_of(folder / "saved"), Strings{"saved"}) << "SIGTERM ended the rank before it had saved";
}

TEST(SinewRun, EndsAtOnce_WhenASecondSignalAsksForIt) {
  for (const auto& [first, second] : {std::pair(SIGTERM, SIGTERM), {SIGINT, SIGINT}, {SIGHUP, SIGTERM}}) {
    const ScratchFolder folder;
    Running job({"-n", "2", "--grace", "1h", "sh", "-c", stubborn(folder)});
    const Strings pids = wait_for_lines(folder / "ready", 2);
    ::kill(job.pid(), first);
    std::this_thread::sleep_for(200ms);  // two signals, not one
    const auto start = std::chrono::steady_clock::now();
    ::kill(job.pid(), second);
    EXPECT_EQ(job.wait(), 128 + first);
    EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
    for (const std::string& pid : pids) EXPECT_TRUE(gone(pid)) << pid;
  }
}

TEST(SinewRun, TakesAHangUpAfterSigterm_ForNoSecondOrder) {
  const ScratchFolder folder;
  Running job({"-n", "1", "--grace", "1h", "sh", "-c",
               fmt::format("trap 'echo term >> {1}' TERM; echo x >> {0}; until [ -s {2} ]; do sleep 0.05; done; exit 5",
                           folder / "ready", folder / "got", folder / "go")});
  wait_for_lines(folder / "ready", 1);
  ::kill(job.pid(), SIGTERM);
  wait_for_lines(folder / "got", 1);
  ::kill(job.pid(), SIGHUP);
  ::kill(job.pid(), SIGUSR2);  // which ends the rank, once sinew-run has had both
  EXPECT_EQ(job.wait(), 128 + SIGUSR2);
}

TEST(SinewRun, NamesTheSignal_AndLetsTheOthersContinueIfAsked) {
  const Outcome o = run_script(3, "[ $RANK = 1 ] && kill -KILL $$; sleep 0.3; echo done", {"--on-failure", "continue"});
  EXPECT_EQ(o.exit_code, 128 + SIGKILL);
  EXPECT_THAT(o.err, HasSubstr("rank 1 was killed by SIGKILL"));
  EXPECT_THAT(lines(o.out), UnorderedElementsAre("[0] done", "[2] done"));
}

TEST(SinewRun, TellsWaitingRanksThatOneDied) {
  const Outcome o =
      run_script(2, fmt::format("[ $RANK = 1 ] && exit 9; exec {}", EXCHANGE_PROBE), {"--on-failure", "continue"});
  EXPECT_EQ(o.exit_code, 9);
  EXPECT_THAT(o.out, HasSubstr("[0] PeerLost: rank 1 ended with exit code 9"));
}

TEST(SinewRun, StartsAgainAfterAFailure_AsOftenAsAsked) {
  const ScratchFolder folder;
  const std::string script = fmt::format("echo x >> {0}; [ $(wc -l < {0}) -gt 2 ]", folder / "starts");
  const Outcome o = run_script(1, script, {"--restarts", "5"});
  EXPECT_EQ(o.exit_code, 0);
  EXPECT_EQ(lines_of(folder / "starts").size(), 3u);
  EXPECT_THAT(o.err, HasSubstr("(2 of 5)"));
  const Outcome never = run_script(1, "exit 4", {"--restarts", "2"});
  EXPECT_EQ(never.exit_code, 4);
}

TEST(SinewRun, PassesSignalsOn) {
  const ScratchFolder folder;
  const std::string ready = folder / "ready";
  const std::string got = folder / "got";
  Running job({"-n", "2", "sh", "-c",
               fmt::format("trap 'echo usr1 >> {1}' USR1; trap 'echo term >> {1}; exit 0' TERM; echo x >> {0}; "
                           "while :; do sleep 0.05; done",
                           ready, got)});
  wait_for_lines(ready, 2);
  ::kill(job.pid(), SIGUSR1);
  EXPECT_EQ(wait_for_lines(got, 2), (Strings{"usr1", "usr1"}));
  ::kill(job.pid(), SIGTERM);
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(lines_of(got), (Strings{"usr1", "usr1", "term", "term"}));
}

/// sinew-run from somebody who ignores a signal, which programs that it starts inherit.
Outcome sinew_run_ignoring(const std::string& signal, const Strings& arguments) {
  Strings command = {"timeout", "-s", "KILL", "60", "env", "--ignore-signal=" + signal, SINEW_RUN};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_program(command);
}

TEST(SinewRun, NoticesTheEndOfItsRanks_WhenItsParentIgnoresSigchld) {
  const Outcome o =
      sinew_run_ignoring("CHLD", {"-n", "2", "sh", "-c", "sed -n 's/SigIgn:.//p' /proc/self/status; exit $RANK"});
  EXPECT_EQ(o.exit_code, 1) << o.err;
  for (const std::string& line : lines(o.out)) {
    const auto ignored = std::stoull(line.substr(line.find(' ')), nullptr, 16);
    EXPECT_EQ(ignored >> (SIGCHLD - 1) & 1, 0u) << line;
  }
}

TEST(SinewRun, LeavesSignalsAlone_ThatItsParentIgnores) {
  const Outcome o = sinew_run_ignoring("HUP", {"-n", "1", "--restarts", "1", "sh", "-c", "kill -HUP $PPID; exit 7"});
  EXPECT_EQ(o.exit_code, 7);
  EXPECT_THAT(o.err, AllOf(HasSubstr("rank 0 ended with exit code 7"), HasSubstr("(1 of 1)")));
}

TEST(SinewRun, EndsWith130_WhenInterrupted) {
  const ScratchFolder folder;
  Running job({"-n", "2", "sh", "-c", fmt::format("echo x >> {}; exec sleep 1000", folder / "ready")});
  wait_for_lines(folder / "ready", 2);
  std::this_thread::sleep_for(100ms);  // sh becomes sleep
  ::kill(job.pid(), SIGINT);
  EXPECT_EQ(job.wait(), 128 + SIGINT);
}

TEST(SinewRun, LeavesNothingBehind_WhenItIsKilled) {
  const ScratchFolder folder;
  Running job({"-n", "3", "sh", "-c", fmt::format("echo $$ >> {}; exec sleep 1000", folder / "pids")});
  const Strings pids = wait_for_lines(folder / "pids", 3);
  ::kill(job.pid(), SIGKILL);
  job.wait();
  for (const std::string& pid : pids) EXPECT_TRUE(gone(pid)) << pid;
}

TEST(SinewRun, EndsWhatARankLeftBehind) {
  const ScratchFolder folder;
  const Outcome o = run_script(2, fmt::format("sleep 1000 & echo $! >> {}", folder / "pids"));
  EXPECT_EQ(o.exit_code, 0);
  const Strings pids = lines_of(folder / "pids");
  EXPECT_EQ(pids.size(), 2u);
  for (const std::string& pid : pids) EXPECT_TRUE(gone(pid)) << pid;
}

/// It has left the rank's process group, which sinew-run ends.
TEST(SinewRun, NoticesTheEndOfARank_WhoseChildHoldsItsOutput) {
  const ScratchFolder folder;
  const std::string pid = folder / "pid";
  const auto before = std::chrono::steady_clock::now();
  const Outcome o =
      run_script(1, fmt::format("setsid sh -c 'echo $$ > {0}; exec sleep 60' & until [ -s {0} ]; do sleep 0.01; done; "
                                "head -c 60000 /dev/zero | tr '\\0' x; echo; echo last words; exit 3",
                                pid));
  EXPECT_LT(std::chrono::steady_clock::now() - before, 30s);
  EXPECT_EQ(o.exit_code, 3);
  EXPECT_THAT(o.out, AllOf(HasSubstr("[0] " + std::string(60000, 'x') + "\n"), HasSubstr("[0] last words\n")));
  for (const std::string& left : lines_of(pid)) ::kill(std::stoi(left), SIGKILL);
}

TEST(SinewRun, GivesRank0ItsInput) {
  const Outcome o =
      run_program({"sh", "-c", fmt::format("echo hello | {} -n 2 sh -c 'read line; echo \"got $line\"'", SINEW_RUN)});
  EXPECT_THAT(lines(o.out), UnorderedElementsAre("[0] got hello", "[1] got "));
}

TEST(SinewRun, EndsTheJob_WhenNobodyReadsItsOutput) {
  const Outcome o = run_program(
      {"bash", "-c",
       fmt::format("{} -n 2 sh -c 'while :; do echo y || exit; done' | head -1; echo ${{PIPESTATUS[0]}}", SINEW_RUN)});
  EXPECT_THAT(o.out, HasSubstr(fmt::format("\n{}", 128 + SIGPIPE)));
  const Outcome restarted = run_program(
      {"bash", "-c",
       fmt::format("{} -n 2 --restarts 3 sh -c 'while :; do echo y || exit; done' | head -1; echo ${{PIPESTATUS[0]}}",
                   SINEW_RUN)});
  EXPECT_THAT(restarted.out, HasSubstr(fmt::format("\n{}", 128 + SIGPIPE)));
  EXPECT_THAT(restarted.err, Not(HasSubstr("again")));
}

TEST(SinewRun, EndsWithOneAndOneLine_WhenWhatRanksPrintIsLost) {
  for (const char* where : {">/dev/full", ">&-"}) {
    const Outcome o = run_program({"sh", "-c", fmt::format("{} -n 2 sh -c 'echo a; echo b' {}", SINEW_RUN, where)});
    EXPECT_EQ(o.exit_code, 1) << where;
    EXPECT_EQ(lines(o.err).size(), 1u) << o.err;
    EXPECT_THAT(o.err, HasSubstr("sinew-run: standard output: "));
  }
  const Outcome failed = run_program({"sh", "-c", fmt::format("{} -n 1 sh -c 'echo a; exit 7' >/dev/full", SINEW_RUN)});
  EXPECT_EQ(failed.exit_code, 7);
}

TEST(SinewRun, HasNothingOfItsOwnAtTheStandardStreams_WhenTheyAreClosed) {
  const ScratchFolder folder;
  const std::string rank =
      fmt::format("readlink /proc/$PPID/fd/0 /proc/$PPID/fd/1 /proc/$PPID/fd/2 > {}", folder / "streams");
  const Outcome o = run_program({"sh", "-c", "exec \"$@\" <&- >&- 2>&-", "sh", SINEW_RUN, "-n", "1", "sh", "-c", rank});
  EXPECT_EQ(o.exit_code, 0);
  EXPECT_EQ(lines_of(folder / "streams"), (Strings{"/dev/null", "/dev/null", "/dev/null"}));
}

TEST(SinewRun, AnswersBadInputWithOneLine) {
  const std::vector<std::pair<Strings, std::string>> cases = {
      {{"ls"}, "-n"},
      {{"-n", "0", "ls"}, "1 to 65536"},
      {{"-n", "x", "ls"}, "x"},
      {{"-n", "99999999999", "ls"}, "'99999999999': expected a whole number, 1 to 65536"},
      {{"-n", "2", "--restarts", "99999999999", "ls"}, "0 to 1000000"},
      {{"-n", "2"}, "PROGRAM"},
      {{"-n", "2", ""}, "which PROGRAM?"},
      {{"-n", "2", "/no/such/program"}, "/no/such/program: No such file"},
      {{"-n", "2", "--frobnicate", "ls"}, "--frobnicate"},
      {{"-n", "2", "--on-failure", "ignore", "ls"},
       "'ignore': expected end (when a rank fails, the others are ended) or continue (the others go on)"},
      {{"-n", "2", "--restarts", "-1", "ls"}, "--restarts"},
      {{"-np", "2", "ls"}, "'p': expected -n N; -np is an option of other launchers"},
      {{"--nproc-per-node", "2", "ls"}, "--nproc-per-node: no such option; expected -n N, "},
      {{"--nproc-per-node=2", "ls"}, "--nproc-per-node=2: no such option; expected -n N, "},
      {{"--hostfile", "hosts", "ls"},
       "--hostfile: no such option; expected --hosts HOST:RANKS,... on the command line"},
      {{"-n", "2", "--nodes", "2", "ls"},
       "--nodes 2: there is only this host, because --hosts names no others and this is no shell of an allocation of "
       "Slurm's with others; expected --hosts HOST:RANKS,... with 2 hosts or more"},
      {{"-n", "2", "--nodes", "99999999999", "ls"}, "MIN or MIN:MAX with MIN not above MAX, each 1 to 65536"},
      {{"--hosts", "a:99999999999", "ls"}, "with 1 to 65536 ranks on each host"},
      {{"-n", "1", "--min-ranks", "2", "ls"},
       "--min-ranks 2: the job starts with 1 rank only; expected --min-ranks 1 or fewer"},
      {{"-n", "2", "--backoff", "5", "ls"}, "--backoff 5: '5' is no duration with a unit; expected FIRST[,LONGEST]"},
      {{"-n", "2", "--backoff", "2min,1s", "ls"}, "--backoff 2min,1s: the longest wait is shorter than the first"},
      {{"-n", "2", "--env", "RANK=7", "ls"}, "--env RANK=7: sinew-run itself sets RANK for each rank"},
      {{"-n", "2", "--env", "SINEW_JOB", "ls"}, "--env SINEW_JOB: sinew-run itself sets SINEW_JOB"},
      {{"-n", "2", "--log-dir", "", "ls"}, "--log-dir: expected a value, found none"},
      {{"-n", "2", "--log-dir", "l", "--tee", "1", "ls"}, "--tee 1: expected --tee=1, with '=' before the ranks"},
      {{"-n", "2", "--log-dir", "l", "--redirect", "0,1", "ls"}, "--redirect 0,1: expected --redirect=0,1"},
      {{"-n", "3", "--log-dir", "l", "--tee=5", "ls"}, "--tee=5: the job has no rank 5; expected ranks of 0 to 2"},
      {{"-n", "3", "--log-dir", "l", "--redirect=1-3", "ls"}, "--redirect=1-3: the job has no rank 3"},
      {{"-n", "3", "--log-dir", "l", "--tee=3-", "ls"}, "--tee=3-: the job has no rank 3"},
      {{"-n", "3", "--log-dir", "l", "--tee=99999999999", "ls"}, "expected ranks of 0 to 65535"},
      {{"-n", std::string(500, '7'), "ls"}, "'" + std::string(60, '7') + ".. (500 bytes)': expected a whole number"},
      {{"--hosts", "a:x", "ls"}, "HOST:RANKS"},
      {{"--hosts", "a:2,,b", "ls"}, "HOST:RANKS"},
      {{"--hosts", "-oProxyCommand=x:2", "ls"}, "HOST:RANKS"},
      {{"-n", "5", "--hosts", "a:2,b:2", "ls"}, "4 ranks only"},
      {{"-n", "2", "--env", "=x", "ls"}, "NAME=VALUE"},
      {{"-n", "2", "--grace", "soon", "ls"}, "--grace soon: expected a duration with a unit, such as"},
      {{"-n", "2", "--grace", "5", "ls"}, "--grace 5: expected a duration with a unit, such as"},
      {{"-n", "2", "--grace", "-5s", "ls"}, "--grace"},
      {{"-n", "2", "--grace", "", "ls"}, "--grace"},
      {{"-n", "2", "--grace", "99999999999999h", "ls"},
       "--grace 99999999999999h: expected a duration with a unit, such as"},
  };
  for (const auto& [arguments, expected] : cases) {
    const Outcome o = sinew_run(arguments);
    EXPECT_EQ(o.exit_code, 2) << expected;
    EXPECT_EQ(lines(o.err).size(), 1u) << o.err;
    EXPECT_THAT(o.err, HasSubstr(expected));
    EXPECT_EQ(o.out, "");
  }
  EXPECT_FALSE(std::filesystem::exists("l")) << "no folder was made for a job that was not started";
  const Outcome variable = sinew_run({"-n", "1", "ls"}, {"SINEW_TIMEOUT=5x"});
  EXPECT_EQ(variable.exit_code, 2);
  EXPECT_THAT(variable.err, HasSubstr("SINEW_TIMEOUT=5x"));
}

TEST(SinewRun, SaysThatARelativeLogFolder_NeedsAWorkingDirectory) {
  const ScratchFolder folder;
  const std::string script =
      fmt::format("mkdir {0} && cd {0} && rmdir {0} && exec {1} -n 1 --log-dir logs true", folder / "gone", SINEW_RUN);
  const Outcome o = run_program({"sh", "-c", script});
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_EQ(o.err,
            "sinew-run: --log-dir logs: the working directory cannot be found (No such file or directory); expected a "
            "path that begins with /\n");
}

TEST(SinewRun, SaysNothingOfLogFiles_ThatCannotBeMade) {
  const Outcome o = sinew_run({"-n", "1", "--log-dir", "/proc/none", "true"});
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_EQ(lines(o.err).size(), 1u) << o.err;
  EXPECT_THAT(o.err, HasSubstr("--log-dir: cannot make /proc/none"));
}

/// In a shell that sends the signal when the file `folder`/ready is there. The outcome is that of sinew-run.
Outcome signalled(const ScratchFolder& folder, const char* signal, const std::string& arguments) {
  return run_program({"bash", "-c",
                      fmt::format("{0} {1} & until [ -s {2} ]; do sleep 0.05; done; kill -{3} $!; wait $!", SINEW_RUN,
                                  arguments, folder / "ready", signal)});
}

TEST(SinewRun, SaysWhyAJobThatMayLoseRanksCannotGoOn) {
  const Outcome o = run_script(2, "[ $LOCAL_RANK = 1 ] && exit 3; sleep 1000", {"--min-ranks", "2"});
  EXPECT_EQ(o.exit_code, 3);
  EXPECT_THAT(o.err,
              HasSubstr("sinew-run: the job cannot go on: 1 rank is left, it needs 2 or more, and no rank may be "
                        "started again (--restarts)\n"));
}

TEST(SinewRun, SaysWhichSignalEndsAJob) {
  const ScratchFolder folder;
  const Outcome o =
      signalled(folder, "TERM", fmt::format("-n 1 --grace 20s sh -c 'echo x > {}; exec sleep 1000'", folder / "ready"));
  EXPECT_EQ(o.exit_code, 128 + SIGTERM);
  EXPECT_EQ(o.err, "sinew-run: SIGTERM ends the job: 1 rank gets it, too, and has 20 s to end (--grace)\n");
}

/// Ctrl-C ends the reader of a pipe as well.
TEST(SinewRun, EndsAsItsRanksDo_WhereNobodyReadsWhichSignalEndsTheJob) {
  const ScratchFolder folder;
  const Outcome o = run_program(
      {"bash", "-c",
       fmt::format("{0} -n 1 sh -c 'trap \"exit 0\" TERM; echo x > {1}; while :; do sleep 0.05; done' > >(true) 2>&1 & "
                   "until [ -s {1} ]; do sleep 0.05; done; kill -TERM $!; wait $!",
                   SINEW_RUN, folder / "ready")});
  EXPECT_EQ(o.exit_code, 0) << o.err;
}

TEST(SinewRun, SaysWhichSignalEndsAJob_ThatWaitsToStartAgain) {
  const ScratchFolder folder;
  const Outcome o = run_program(
      {"bash", "-c",
       fmt::format("{0} -n 1 --restarts 1 --backoff 10min false 2>{1} & until grep -q 'again in' {1}; do sleep 0.05; "
                   "done; sleep 0.2; kill -TERM $!; wait $!; code=$?; cat {1} >&2; exit $code",
                   SINEW_RUN, folder / "said")});
  EXPECT_EQ(o.exit_code, 128 + SIGTERM);
  EXPECT_EQ(lines(o.err).back(), "sinew-run: SIGTERM ends the job before the ranks were started again") << o.err;
}

}  // namespace
}  // namespace sinew::test
