// sinew-run writes log files, and says at the end of a failed job what has failed.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/system/file_text.hpp>
#include <support/scratch_folder.hpp>

#include "fake_rsh.hpp"
#include "run_job.hpp"

namespace sinew::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

/// The folders of the runs below `folder`.
Strings runs(const std::string& folder) {
  Strings all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) all.push_back(entry.path().string());
  return all;
}

std::string log_of(const std::string& folder, const std::string& rest) {
  const Strings all = runs(folder);
  return all.size() == 1 ? file_text(all[0] + "/" + rest).value_or("(no file)") : fmt::format("({} runs)", all.size());
}

/// As sinew-run writes a path.
std::string plain(const std::string& path) { return std::filesystem::path(path).lexically_normal().string(); }

const std::string kTalk = "echo out $RANK; echo err $RANK >&2";

TEST(SinewRunLogs, HoldWhatEachRankPrints_WhichIsPrintedToo) {
  const ScratchFolder folder;
  const Outcome o = run_script(2, kTalk, {"--log-dir", folder / "logs"});
  EXPECT_EQ(o.exit_code, 0);
  EXPECT_THAT(lines(o.out), UnorderedElementsAre("[0] out 0", "[1] out 1"));
  EXPECT_THAT(o.err, AllOf(HasSubstr("sinew-run: log files: " + plain(folder / "logs/")), HasSubstr("[1] err 1")));
  for (const char* rank : {"0", "1"}) {
    EXPECT_EQ(log_of(folder / "logs", fmt::format("attempt_0/{}/stdout.log", rank)), fmt::format("out {}\n", rank));
    EXPECT_EQ(log_of(folder / "logs", fmt::format("attempt_0/{}/stderr.log", rank)), fmt::format("err {}\n", rank));
  }
}

TEST(SinewRunLogs, AreAllThatRanksWriteTo_WhereTheyAreRedirected) {
  const std::vector<std::pair<Strings, Strings>> cases = {
      {{"--redirect"}, {}},
      {{"--redirect=1-"}, {"[0] out 0"}},
      {{"--tee=1"}, {"[1] out 1"}},
      {{"--tee"}, {"[0] out 0", "[1] out 1", "[2] out 2"}},
  };
  for (const auto& [options, printed] : cases) {
    const ScratchFolder folder;
    Strings all = {"--log-dir", folder / "logs"};
    all.insert(all.end(), options.begin(), options.end());
    const Outcome o = run_script(3, kTalk, all);
    EXPECT_EQ(o.exit_code, 0);
    EXPECT_THAT(lines(o.out), testing::UnorderedElementsAreArray(printed)) << options[0];
    EXPECT_EQ(log_of(folder / "logs", "attempt_0/2/stdout.log"), "out 2\n");
  }
}

TEST(SinewRunLogs, AreWrittenOnTheRanksHost) {
  const ScratchFolder folder;
  const FakeRsh rsh;
  const Outcome o = run_script(3, kTalk, {"--hosts", "a:2,localhost:1", "--log-dir", folder / "logs", "--redirect=0"},
                               {rsh.variable()});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(lines(o.out), UnorderedElementsAre("[1] out 1", "[2] out 2"));
  for (const int rank : {0, 1, 2}) {
    EXPECT_EQ(log_of(folder / "logs", fmt::format("attempt_0/{}/stderr.log", rank)), fmt::format("err {}\n", rank));
  }
}

TEST(SinewRunLogs, KeepAFolderForEachStart) {
  const ScratchFolder folder;
  const Outcome o = run_script(1, "echo try; exit 3", {"--log-dir", folder / "logs", "--max-restarts", "1"});
  EXPECT_EQ(o.exit_code, 3);
  for (const int attempt : {0, 1}) {
    EXPECT_EQ(log_of(folder / "logs", fmt::format("attempt_{}/0/stdout.log", attempt)), "try\n");
  }
}

TEST(SinewRunLogs, AreRotated_WhenAsked) {
  const ScratchFolder folder;
  const Outcome o = run_script(1, "for i in $(seq 1000); do echo line $i of a thousand; done",
                               {"--log-dir", folder / "logs", "--log-rotate", "4KiB,1", "--redirect"});
  EXPECT_EQ(o.exit_code, 0);
  const std::string newest = log_of(folder / "logs", "attempt_0/0/stdout.log");
  const std::string older = log_of(folder / "logs", "attempt_0/0/stdout.log.1");
  EXPECT_LE(newest.size(), 4096u);
  EXPECT_LE(older.size(), 4096u);
  EXPECT_TRUE(newest.ends_with("line 1000 of a thousand\n"));
  EXPECT_TRUE(older.starts_with("line ")) << "cut between lines";
  EXPECT_EQ(log_of(folder / "logs", "attempt_0/0/stdout.log.2"), "(no file)");
}

TEST(SinewRunLogs, EndTheStart_WhereTheyCannotBeMade) {
  const ScratchFolder folder;
  std::ofstream(folder / "file") << "x";
  const FakeRsh rsh;
  const Outcome here = run_script(2, "echo started", {"--log-dir", folder / "file"});
  EXPECT_EQ(here.exit_code, 2);
  EXPECT_EQ(here.out, "");
  EXPECT_THAT(here.err, HasSubstr("--log-dir: cannot make " + plain(folder / "file")));
  const Outcome there =
      run_script(2, "echo started", {"--hosts", "a:2", "--log-dir", folder / "file"}, {rsh.variable()});
  EXPECT_EQ(there.exit_code, 255);
  EXPECT_EQ(there.out, "");
  EXPECT_THAT(there.err, HasSubstr("host a: --log-dir: cannot make " + plain(folder / "file")));
}

TEST(SinewRunLogs, CostNoOutputAndNoRank_WhereTheDiskIsFull) {
  const FakeRsh rsh;
  for (const Strings& hosts : {Strings{}, Strings{"--hosts", "a:2"}}) {
    const ScratchFolder folder;
    // Once the first line is printed, the log files exist. The test then replaces them by files that have no room.
    const std::string script = fmt::format(
        "cd {}/*/attempt_0/$RANK && rm stdout.log && ln -s /dev/full stdout.log; "
        "for i in $(seq 500); do echo line $i; done",
        folder / "logs");
    Strings options = {"--log-dir", folder / "logs", "--log-rotate", "4096,0", "--redirect"};
    options.insert(options.end(), hosts.begin(), hosts.end());
    const Outcome o = run_script(2, script, options, {rsh.variable()});
    EXPECT_EQ(o.exit_code, 0) << o.err;
    EXPECT_THAT(o.out, AllOf(HasSubstr("[0] line 500\n"), HasSubstr("[1] line 500\n")));
    EXPECT_THAT(o.err, HasSubstr("stdout.log: No space left on device; what ranks print there is printed"));
    EXPECT_EQ(lines(o.err).size(), 2u) << o.err;  // where the files are, and this
  }
}

TEST(SinewRunLogs, LetARedirectedRankGoOn_WhoeverDoesNotRead) {
  const ScratchFolder folder;
  const Outcome o = run_program(
      {"bash", "-c",
       fmt::format("{} -n 2 --log-dir {} --tee=0 sh -c 'if [ $RANK = 0 ]; then yes | head -c 20000000; else head -c "
                   "5000000 /dev/zero; touch {}; fi' | (until [ -e {} ]; do sleep 0.05; done; wc -c)",
                   SINEW_RUN, folder / "logs", folder / "done", folder / "done")});
  EXPECT_EQ(o.exit_code, 0) << o.err;
}

TEST(SinewRunLogs, NeedAFolder) {
  for (const char* option : {"--tee", "--redirect=0", "--log-rotate=1MiB"}) {
    const Outcome o = sinew_run({"-n", "1", option, "ls"});
    EXPECT_EQ(o.exit_code, 2);
    EXPECT_THAT(o.err, HasSubstr("expected --log-dir FOLDER")) << option;
  }
  const std::vector<std::pair<Strings, std::string>> cases = {
      {{"--log-rotate", "1"}, "--log-rotate 1: expected SIZE[,KEEP]"},
      {{"--log-rotate", "1MiB,x"}, "--log-rotate 1MiB,x: expected SIZE[,KEEP]"},
      {{"--log-rotate", "soon"}, "--log-rotate soon: expected"},
      {{"--tee=x"}, "--tee=x: expected ranks of 0 to 65535, such as"},
      {{"--tee=0-3", "--redirect=3"}, "both name rank 3"},
      {{"--standalone", "--hosts", "a:1"}, "--standalone --hosts a:1: expected one of the two"},
  };
  for (const auto& [options, expected] : cases) {
    const ScratchFolder folder;
    Strings all = {"-n", "1", "--log-dir", folder / "logs"};
    all.insert(all.end(), options.begin(), options.end());
    all.emplace_back("ls");
    const Outcome o = sinew_run(all);
    EXPECT_EQ(o.exit_code, 2);
    EXPECT_EQ(lines(o.err).size(), 1u) << o.err;
    EXPECT_THAT(o.err, HasSubstr(expected));
  }
}

TEST(SinewRunSummary, NamesTheFirstFailure_ItsLastLines_AndTheRanksItEnded) {
  const ScratchFolder folder;
  const FakeRsh rsh;
  for (const Strings& hosts : {Strings{}, Strings{"--hosts", "localhost:1,b:2"}}) {
    Strings options = {"--log-dir", folder / "logs", "--redirect"};
    options.insert(options.end(), hosts.begin(), hosts.end());
    const Outcome o = run_script(3,
                                 fmt::format("echo $$ > {}.$RANK; [ $RANK = 1 ] && {{ for i in $(seq 50); do echo "
                                             "cause $i >&2; done; exit 7; }}; sleep 1000",
                                             folder / "pid"),
                                 options, {rsh.variable()});
    EXPECT_EQ(o.exit_code, 7);
    const std::string host = hosts.empty() ? "" : "b";
    EXPECT_THAT(o.err, HasSubstr("sinew-run: the job failed: rank 1 on host " + host));
    EXPECT_THAT(o.err, HasSubstr(fmt::format(", pid {} ended with exit code 7 at ", lines_of(folder / "pid.1").at(0))));
    EXPECT_THAT(o.err, AllOf(HasSubstr("sinew-run:   | cause 31\n"), HasSubstr("sinew-run:   | cause 50\n"),
                             Not(HasSubstr("cause 30\n"))));
    EXPECT_THAT(o.err, HasSubstr("sinew-run: sinew-run then ended ranks 0, 2\n"));
    EXPECT_THAT(o.err, AllOf(HasSubstr("sinew-run: the log files of rank 1 are " + plain(folder / "logs/")),
                             HasSubstr("/attempt_0/1/stderr.log and stdout.log on host " + host)));
  }
}

TEST(SinewRunSummary, TellsWhatFailedByItself_FromWhatWasEnded) {
  const ScratchFolder folder;
  const Outcome o = run_script(4,
                               "case $RANK in 0) kill -SEGV $$;; 1) sleep 0.5; exit 3;; 2) sleep 0.5; exit 3;; esac; "
                               "sleep 0.5",
                               {"--on-failure", "continue"});
  EXPECT_EQ(o.exit_code, 128 + SIGSEGV);
  EXPECT_THAT(o.err, AllOf(HasSubstr("the job failed: rank 0 on host "), HasSubstr("was killed by SIGSEGV")));
  EXPECT_THAT(o.err, HasSubstr("after that ranks 1, 2 ended with exit code 3\n"));
  EXPECT_THAT(o.err, Not(HasSubstr("then ended")));
}

TEST(SinewRunSummary, IsNotThere_WhenAllIsWell_OrAUserEndsTheJob) {
  EXPECT_EQ(run_script(2, "true").err, "");
  const ScratchFolder folder;
  const std::string command =
      fmt::format("{} -n 1 sh -c 'echo x > {}; sleep 1000' & until [ -s {} ]; do sleep 0.05; done; kill $!; wait $!",
                  SINEW_RUN, folder / "ready", folder / "ready");
  const Outcome o = run_program({"bash", "-c", command});
  EXPECT_EQ(o.exit_code, 128 + SIGTERM);
  EXPECT_THAT(o.err, Not(HasSubstr("the job failed")));
}

TEST(SinewRunSaved, PassesTheCodeOn_AndDoesNotStartAgain) {
  const ScratchFolder folder;
  Running job({"-n", "2", "--restarts", "5", "sh", "-c",
               fmt::format("trap 'exit 75' TERM; echo x >> {}; while :; do sleep 0.05; done", folder / "ready")});
  wait_for_lines(folder / "ready", 2);
  ::kill(job.pid(), SIGTERM);
  EXPECT_EQ(job.wait(), 75);
  EXPECT_EQ(lines_of(folder / "ready").size(), 2u);
  // A scheduler may have told the ranks themselves.
  const Outcome told = run_script(2, "trap 'exit 75' TERM; [ $RANK = 1 ] && exit 75; while :; do sleep 0.05; done",
                                  {"--restarts", "5", "--grace", "500ms"});
  EXPECT_EQ(told.exit_code, 75);
  EXPECT_THAT(told.err, Not(HasSubstr("again")));
}

TEST(SinewRunSaved, LeavesTheOthersTheGrace_ToEndByThemselves) {
  const Outcome o = run_script(2, "[ $RANK = 1 ] && exit 75; sleep 1; exit 75");
  EXPECT_EQ(o.exit_code, 75) << o.err;
  EXPECT_EQ(o.err, "sinew-run: rank 1 ended with exit code 75: it has saved its state\n");
}

TEST(SinewRunSaved, IsAFailure_WhereOneRankHasNotSaved) {
  const Outcome o = run_script(2, "[ $RANK = 1 ] && exit 75; sleep 0.3; exit 9", {"--on-failure", "continue"});
  EXPECT_EQ(o.exit_code, 9);
  EXPECT_THAT(o.err, HasSubstr("the job failed: rank 0"));
}

TEST(SinewRunStandalone, StaysOnThisHost_InAnAllocationOfSlurms) {
  const Outcome o =
      run_script(2, "echo $WORLD_SIZE $MASTER_ADDR", {"--standalone"},
                 {"SLURM_JOB_NODELIST=n[1-2]", "SLURM_TASKS_PER_NODE=2,1", "SLURM_JOB_NUM_NODES=2", "SINEW_RSH=false"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(lines(o.out), UnorderedElementsAre("[0] 2 127.0.0.1", "[1] 2 127.0.0.1"));
}

TEST(SinewRunRestarts, WaitLongerEachTime_AndEndBySignalsMeanwhile) {
  const ScratchFolder folder;
  const std::string script = fmt::format("date +%s%N >> {}; exit 1", folder / "starts");
  const std::string all =
      fmt::format("exec {} -n 1 --max-restarts 9 sh -c '{}' 2> {}", SINEW_RUN, script, folder / "said");
  Running job({"-n", "1", "--grace", "1h", "sh", "-c", all});
  const Strings starts = wait_for_lines(folder / "starts", 3);
  ASSERT_EQ(starts.size(), 3u);
  EXPECT_GE(std::stoll(starts[1]) - std::stoll(starts[0]), 1'000'000'000);
  EXPECT_GE(std::stoll(starts[2]) - std::stoll(starts[1]), 2'000'000'000);
  while (file_text(folder / "said").value_or("").find("in 4 s (3 of 9)") == std::string::npos) ::usleep(10'000);
  ::kill(job.pid(), SIGTERM);  // in the four seconds that follow
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  EXPECT_EQ(lines_of(folder / "starts").size(), 3u);
}

}  // namespace
}  // namespace sinew::test
