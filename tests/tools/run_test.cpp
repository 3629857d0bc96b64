#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/random.hpp>
#include <support/run_program.hpp>

namespace sinew::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;
using Strings = std::vector<std::string>;

constexpr auto kHang = 60s;  // a hang, not a slow machine

Outcome sinew_run(Strings arguments, const Strings& environment = {}) {
  arguments.insert(arguments.begin(), SINEW_RUN);
  return run_program(arguments, environment);
}

Outcome run_script(int ranks, const std::string& script, Strings options = {}, const Strings& environment = {}) {
  options.insert(options.end(), {"-n", fmt::format("{}", ranks), "sh", "-c", script});
  return sinew_run(options, environment);
}

Strings lines(const std::string& text) {
  Strings all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

/// A folder that goes with the test.
class Folder {
 public:
  Folder() { std::filesystem::create_directories(path_); }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_ = fmt::format("{}/sinew-run-{:x}", testing::TempDir(), random_id());
};

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Waits until the file has as many lines.
Strings wait_for_lines(const std::string& path, std::size_t count) {
  const auto give_up = std::chrono::steady_clock::now() + kHang;
  for (;;) {
    Strings found = lines(text_of(path));
    if (found.size() >= count || std::chrono::steady_clock::now() > give_up) return found;
    std::this_thread::sleep_for(10ms);
  }
}

/// A sinew-run that is not waited for yet.
class Running {
 public:
  explicit Running(Strings arguments, const Strings& environment = {}) {
    arguments.insert(arguments.begin(), SINEW_RUN);
    pid_ = ::fork();
    if (pid_ != 0) return;
    for (const std::string& entry : environment) ::putenv(const_cast<char*>(entry.c_str()));
    std::vector<char*> argv;
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ~Running() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
};

bool gone(const std::string& pid) {
  const auto give_up = std::chrono::steady_clock::now() + kHang;
  while (::kill(std::stoi(pid), 0) == 0) {
    const std::string state = text_of("/proc/" + pid + "/stat");
    if (state.find(") Z ") != std::string::npos) return true;  // its new parent has not looked yet
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

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
  EXPECT_THAT(lines(o.out), testing::UnorderedElementsAre("0", "more", "1", "more"));
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

TEST(SinewRun, KillsAfterAWhile_WhoeverIgnoresSigterm) {
  const Outcome o = run_script(2, "[ $RANK = 1 ] && { sleep 1; exit 7; }; trap '' TERM; while :; do sleep 1; done");
  EXPECT_EQ(o.exit_code, 7);
  EXPECT_THAT(o.err, HasSubstr("1 rank did not end within 5 s of SIGTERM: SIGKILL"));
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
  const Folder folder;
  const std::string script = fmt::format("echo x >> {0}; [ $(wc -l < {0}) -gt 2 ]", folder / "starts");
  const Outcome o = run_script(1, script, {"--restarts", "5"});
  EXPECT_EQ(o.exit_code, 0);
  EXPECT_EQ(lines(text_of(folder / "starts")).size(), 3u);
  EXPECT_THAT(o.err, HasSubstr("(2 of 5)"));
  const Outcome never = run_script(1, "exit 4", {"--restarts", "2"});
  EXPECT_EQ(never.exit_code, 4);
}

TEST(SinewRun, PassesSignalsOn) {
  const Folder folder;
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
  EXPECT_EQ(lines(text_of(got)), (Strings{"usr1", "usr1", "term", "term"}));
}

TEST(SinewRun, EndsWith130_WhenInterrupted) {
  const Folder folder;
  Running job({"-n", "2", "sh", "-c", fmt::format("echo x >> {}; exec sleep 1000", folder / "ready")});
  wait_for_lines(folder / "ready", 2);
  std::this_thread::sleep_for(100ms);  // sh becomes sleep
  ::kill(job.pid(), SIGINT);
  EXPECT_EQ(job.wait(), 128 + SIGINT);
}

TEST(SinewRun, LeavesNothingBehind_WhenItIsKilled) {
  const Folder folder;
  Running job({"-n", "3", "sh", "-c", fmt::format("echo $$ >> {}; exec sleep 1000", folder / "pids")});
  const Strings pids = wait_for_lines(folder / "pids", 3);
  ::kill(job.pid(), SIGKILL);
  job.wait();
  for (const std::string& pid : pids) EXPECT_TRUE(gone(pid)) << pid;
}

TEST(SinewRun, EndsWhatARankLeftBehind) {
  const Folder folder;
  const Outcome o = run_script(2, fmt::format("sleep 1000 & echo $! >> {}", folder / "pids"));
  EXPECT_EQ(o.exit_code, 0);
  const Strings pids = lines(text_of(folder / "pids"));
  EXPECT_EQ(pids.size(), 2u);
  for (const std::string& pid : pids) EXPECT_TRUE(gone(pid)) << pid;
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
  const Folder folder;
  const std::string rank =
      fmt::format("readlink /proc/$PPID/fd/0 /proc/$PPID/fd/1 /proc/$PPID/fd/2 > {}", folder / "streams");
  const Outcome o = run_program({"sh", "-c", "exec \"$@\" <&- >&- 2>&-", "sh", SINEW_RUN, "-n", "1", "sh", "-c", rank});
  EXPECT_EQ(o.exit_code, 0);
  EXPECT_EQ(lines(text_of(folder / "streams")), (Strings{"/dev/null", "/dev/null", "/dev/null"}));
}

/// SINEW_RSH that stays on this machine: forgets the host's name and runs the command as a remote shell would.
class FakeRsh {
 public:
  FakeRsh() {
    const std::string path = folder_ / "rsh";
    std::ofstream(path) << "#!/bin/sh\necho 'Welcome to this machine'\necho \"$*\" >> " << log()
                        << "\nshift\nexec sh -c \"$*\"\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  std::string variable() const { return "SINEW_RSH=" + folder_ / "rsh"; }
  std::string log() const { return folder_ / "log"; }

 private:
  Folder folder_;
};

TEST(SinewRunHosts, MeetOverTheLaunchersStore) {
  const FakeRsh rsh;
  const Outcome o = sinew_run({"--hosts", "a:2,localhost:1,b:2", EXCHANGE_PROBE, "2"}, {rsh.variable()});
  EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
  EXPECT_EQ(lines(o.out).size(), 10u);
  EXPECT_THAT(o.out, AllOf(HasSubstr("[4] world 1 rank 4 of 5"), HasSubstr("local 1 of 2"), HasSubstr("local 0 of 1")));
  const Strings commands = lines(text_of(rsh.log()));
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

TEST(SinewRunHosts, EndTogether) {
  const FakeRsh rsh;
  const Folder folder;
  const Outcome o = run_script(
      4,
      fmt::format(
          "echo $$ >> {0}; [ $RANK = 3 ] && while [ $(wc -l < {0}) -lt 4 ]; do :; done && kill -SEGV $$; sleep 1000",
          folder / "pids"),
      {"--hosts", "a:2,b:2"}, {rsh.variable()});
  EXPECT_EQ(o.exit_code, 128 + SIGSEGV);
  EXPECT_THAT(o.err, HasSubstr("rank 3 was killed by SIGSEGV"));
  for (const std::string& pid : lines(text_of(folder / "pids"))) EXPECT_TRUE(gone(pid));
}

TEST(SinewRunHosts, SaySo_WhenAHostCannotBeReached) {
  const Outcome o = sinew_run({"--hosts", "a:2,b:1", "sleep", "1000"}, {"SINEW_RSH=false"});
  EXPECT_EQ(o.exit_code, 255);
  EXPECT_THAT(o.err, AllOf(HasSubstr("host a: "), HasSubstr("ranks 0, 1 lost")));
  const FakeRsh rsh;
  const Outcome none = sinew_run({"--hosts", "a:2", "/no/such/program"}, {rsh.variable()});
  EXPECT_EQ(none.exit_code, 255);
  EXPECT_THAT(none.err, HasSubstr("/no/such/program: No such file"));
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
  Folder folder;
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

TEST(SinewRunHosts, EndAfterSigkill_WhenTheAgentReportsNoMore) {
  const FakeRsh rsh;
  const Folder folder;
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

TEST(SinewRun, AnswersBadInputWithOneLine) {
  const std::vector<std::pair<Strings, std::string>> cases = {
      {{"ls"}, "-n"},
      {{"-n", "0", "ls"}, "1 to 65536"},
      {{"-n", "x", "ls"}, "x"},
      {{"-n", "99999999999", "ls"}, "'99999999999': expected a whole number, 1 to 65536"},
      {{"-n", "2", "--restarts", "99999999999", "ls"}, "0 to 1000000"},
      {{"-n", "2"}, "PROGRAM"},
      {{"-n", "2", "/no/such/program"}, "/no/such/program: No such file"},
      {{"-n", "2", "--frobnicate", "ls"}, "--frobnicate"},
      {{"-n", "2", "--on-failure", "maybe", "ls"}, "end,continue"},
      {{"-n", "2", "--restarts", "-1", "ls"}, "--restarts"},
      {{"--hosts", "a:x", "ls"}, "HOST:RANKS"},
      {{"--hosts", "a:2,,b", "ls"}, "HOST:RANKS"},
      {{"--hosts", "-oProxyCommand=x:2", "ls"}, "HOST:RANKS"},
      {{"-n", "5", "--hosts", "a:2,b:2", "ls"}, "4 ranks only"},
      {{"-n", "2", "--env", "=x", "ls"}, "NAME=VALUE"},
  };
  for (const auto& [arguments, expected] : cases) {
    const Outcome o = sinew_run(arguments);
    EXPECT_EQ(o.exit_code, 2) << expected;
    EXPECT_EQ(lines(o.err).size(), 1u) << o.err;
    EXPECT_THAT(o.err, HasSubstr(expected));
    EXPECT_EQ(o.out, "");
  }
  const Outcome variable = sinew_run({"-n", "1", "ls"}, {"SINEW_TIMEOUT=5x"});
  EXPECT_EQ(variable.exit_code, 2);
  EXPECT_THAT(variable.err, HasSubstr("SINEW_TIMEOUT=5x"));
}

}  // namespace
}  // namespace sinew::test
