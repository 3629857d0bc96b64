// sinew-info watch beside jobs that run, wait, end and die.
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sinew/core/runtime/call_record.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <support/run_program.hpp>
#include <support/scratch_folder.hpp>

namespace sinew::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr auto kPatience = std::chrono::seconds(60);

/// Looks again and again until `is_there` returns true.
template <class F>
bool comes(const F& is_there) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < until) {
    if (is_there()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// A job whose ranks make sums until it is told to end.
class RunningJob {
 public:
  explicit RunningJob(int ranks, const std::string& trace = "") : output_(folder_ / "output") {
    launcher_ = ::fork();
    if (launcher_ == 0) {
      const int file = ::open(output_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      ::dup2(file, STDOUT_FILENO);
      ::dup2(file, STDERR_FILENO);
      if (!trace.empty()) ::setenv("SINEW_TRACE", trace.c_str(), 1);
      ::execl(SINEW_RUN, SINEW_RUN, "-n", std::to_string(ranks).c_str(), ROLL_CALL, "--until-signal", nullptr);
      ::_exit(127);
    }
    processes_.resize(static_cast<std::size_t>(ranks));
    has_begun_ = comes([this] { return read_processes(); });
  }
  ~RunningJob() {
    if (!has_ended_) ::kill(launcher_, SIGKILL);
    for (const pid_t p : processes_) {
      if (!has_ended_ && p > 0) ::kill(p, SIGKILL);
    }
    wait();
  }
  RunningJob(const RunningJob&) = delete;
  RunningJob& operator=(const RunningJob&) = delete;

  bool has_begun() const { return has_begun_; }
  std::string launcher() const { return std::to_string(launcher_); }
  std::string output() const { return content_of(output_); }
  void send(int rank, int signal) const { ::kill(processes_.at(static_cast<std::size_t>(rank)), signal); }
  void wait() {
    if (!has_ended_) ::waitpid(launcher_, nullptr, 0);
    has_ended_ = true;
  }

 private:
  /// Returns true once all ranks have said which process they are.
  bool read_processes() {
    for (const std::string& line : lines_of(output())) {
      int rank = 0, ranks = 0, process = 0;
      const std::size_t at = line.find("rank ");
      if (at == std::string::npos ||
          std::sscanf(line.c_str() + at, "rank %d of %d is process %d", &rank, &ranks, &process) != 3)
        continue;
      processes_.at(static_cast<std::size_t>(rank)) = process;
    }
    return std::ranges::find(processes_, 0) == processes_.end();
  }

  ScratchFolder folder_;
  std::string output_;
  pid_t launcher_ = -1;
  std::vector<pid_t> processes_;
  bool has_begun_ = false;
  bool has_ended_ = false;
};

Outcome watch(const std::vector<std::string>& options) {
  std::vector<std::string> command{SINEW_INFO, "watch"};
  command.insert(command.end(), options.begin(), options.end());
  return run_program(command);
}

/// A watch that goes on beside the test.
class RunningWatch {
 public:
  explicit RunningWatch(const std::vector<std::string>& options) : output_(folder_ / "output") {
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(::open(output_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDOUT_FILENO);
      std::vector<std::string> words{SINEW_INFO, "watch"};
      words.insert(words.end(), options.begin(), options.end());
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      ::execv(SINEW_INFO, arguments.data());
      ::_exit(127);
    }
  }
  ~RunningWatch() {
    if (process_ < 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  RunningWatch(const RunningWatch&) = delete;
  RunningWatch& operator=(const RunningWatch&) = delete;

  std::string output() const { return content_of(output_); }
  void send(int signal) const { ::kill(process_, signal); }
  /// Waits for the end. Returns the exit code; -1: a signal has ended it.
  int exit_code() {
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  ScratchFolder folder_;
  std::string output_;
  pid_t process_ = -1;
};

TEST(Watch, ShowsCallsAndRatesOfEachRank) {
  const RunningJob job(3);
  ASSERT_TRUE(job.has_begun()) << job.output();
  const Outcome o = watch({"--process", job.launcher(), "--json", "--count", "3", "--interval", "500ms"});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  const std::vector<std::string> lines = lines_of(o.out);
  ASSERT_EQ(lines.size(), 3U) << o.out;
  double calls = 0;
  for (const std::string& line : lines) {
    const json jobs = json::parse(line).at("jobs");
    ASSERT_EQ(jobs.size(), 1U);
    const json& ranks = jobs[0].at("ranks");
    ASSERT_EQ(ranks.size(), 3U);
    for (const json& rank : ranks) {
      EXPECT_EQ(rank.at("communicator"), "world of 3");
      EXPECT_TRUE(rank.at("calls_per_s").is_number()) << line;
      calls += rank.at("calls_per_s").get<double>();
      const auto is_sum = [](const json& c) { return c.at("collective") == "all_reduce"; };
      const json& counters = rank.at("counters");
      const auto sums = std::ranges::find_if(counters, is_sum);
      ASSERT_NE(sums, counters.end()) << line;
      EXPECT_EQ(sums->at("communicator"), "world");
      EXPECT_THAT(sums->at("transport").get<std::string>(), HasSubstr("shm"));
      EXPECT_GT(sums->at("calls").get<std::uint64_t>(), 0U);
    }
  }
  EXPECT_GT(calls, 0);
}

TEST(Watch, PrintsPlainTablesToAPipe) {
  const RunningJob job(2);
  ASSERT_TRUE(job.has_begun()) << job.output();
  const Outcome o = watch({"--process", job.launcher(), "--count", "2", "--interval", "200ms"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_EQ(lines_of(o.out).size(), 8U) << o.out;
  EXPECT_THAT(o.out, AllOf(HasSubstr("processes started by " + job.launcher() + ": 2 ranks"), HasSubstr("communicator"),
                           HasSubstr("world of 2"), Not(HasSubstr("\x1b"))));
}

TEST(Watch, NamesARankThatIsLate) {
  const RunningJob job(3);
  ASSERT_TRUE(job.has_begun()) << job.output();
  job.send(1, SIGSTOP);
  std::string last;
  EXPECT_TRUE(comes([&] {
    last = watch({"--process", job.launcher(), "--json", "--count", "1", "--interval", "100ms", "--after", "100"}).out;
    const json ranks = json::parse(last).at("jobs")[0].at("ranks");
    return ranks[1].at("state") == "stopped" && ranks[1].at("late") == "stopped" && ranks[0].at("waits_for") == 1 &&
           ranks[2].at("waits_for") == 1;
  })) << last;
  job.send(1, SIGCONT);
}

TEST(Watch, EndsWithAJobThatEndsInOrder) {
  RunningJob job(2);
  ASSERT_TRUE(job.has_begun()) << job.output();
  RunningWatch beside({"--process", job.launcher(), "--interval", "100ms"});
  ASSERT_TRUE(comes([&] { return !beside.output().empty(); }));
  job.send(1, SIGUSR1);
  EXPECT_EQ(beside.exit_code(), 0) << beside.output() << job.output();
  EXPECT_THAT(beside.output(), HasSubstr("2 ranks, 2 left: the job has ended"));
}

TEST(Watch, EndsWith1_WhereARankDies) {
  RunningJob job(3);
  ASSERT_TRUE(job.has_begun()) << job.output();
  RunningWatch beside({"--process", job.launcher(), "--interval", "100ms"});
  ASSERT_TRUE(comes([&] { return !beside.output().empty(); }));
  job.send(2, SIGKILL);
  EXPECT_EQ(beside.exit_code(), 1) << beside.output() << job.output();
  EXPECT_THAT(beside.output(), AllOf(HasSubstr("died"), HasSubstr("the job has ended")));
}

TEST(Watch, KeepsTwoJobsApart) {
  const RunningJob one(2), other(3);
  ASSERT_TRUE(one.has_begun() && other.has_begun()) << one.output() << other.output();
  const Outcome o =
      watch({"--process", one.launcher() + "," + other.launcher(), "--json", "--count", "1", "--interval", "200ms"});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  std::vector<std::string> found;
  const json seen = json::parse(o.out);
  for (const json& job : seen.at("jobs"))
    found.push_back(job.at("job").get<std::string>() + ": " + std::to_string(job.at("ranks").size()));
  EXPECT_THAT(found, testing::UnorderedElementsAre("processes started by " + one.launcher() + ": 2",
                                                   "processes started by " + other.launcher() + ": 3"));
}

TEST(Watch, ShowsAJobThatKeepsRecordsInAFolder_AlsoAfterItsEnd) {
  const ScratchFolder records;
  RunningJob job(2, records / ".");
  ASSERT_TRUE(job.has_begun()) << job.output();
  const Outcome running = watch({records / ".", "--count", "1"});
  EXPECT_EQ(running.exit_code, 0) << running.err;
  EXPECT_THAT(running.out, AllOf(HasSubstr("generation 0: 2 ranks"), Not(HasSubstr("ended"))));
  job.send(0, SIGUSR1);
  job.wait();
  const Outcome after = watch({records / "."});
  EXPECT_EQ(after.exit_code, 0) << after.err;
  EXPECT_THAT(after.out, HasSubstr("2 ranks, 2 left: the job has ended"));
}

TEST(Watch, EndsInOrderWithASignal) {
  const RunningJob job(2);
  ASSERT_TRUE(job.has_begun()) << job.output();
  for (const int signal : {SIGINT, SIGTERM}) {
    RunningWatch beside({"--process", job.launcher(), "--interval", "100ms"});
    ASSERT_TRUE(comes([&] { return !beside.output().empty(); }));
    beside.send(signal);
    EXPECT_EQ(beside.exit_code(), 0);
    EXPECT_TRUE(beside.output().ends_with("\n")) << beside.output();
  }
}

TEST(Watch, SaysWhatItExpected) {
  const pid_t ended = ::fork();
  if (ended == 0) ::_exit(0);
  ::waitpid(ended, nullptr, 0);
  const Outcome absent = watch({"--process", std::to_string(ended)});
  EXPECT_EQ(absent.exit_code, 2);
  EXPECT_THAT(absent.err, HasSubstr("process " + std::to_string(ended) + ": does not exist"));
  const Outcome no_job = watch({"--process", std::to_string(::getpid())});
  EXPECT_EQ(no_job.exit_code, 2);
  EXPECT_THAT(no_job.err, HasSubstr("expected a running job of two processes or more"));
  const Outcome no_folder = watch({"/absent"});
  EXPECT_EQ(no_folder.exit_code, 2);
  EXPECT_THAT(no_folder.err, HasSubstr("'/absent': cannot be read"));
  EXPECT_THAT(watch({"--interval", "1ms"}).err, HasSubstr("--interval 1ms: expected at least 100ms"));
  EXPECT_THAT(watch({"--interval", "soon"}).err, HasSubstr("expected a duration"));
  EXPECT_EQ(watch({"--count", "-1"}).exit_code, 2);
}

TEST(Watch, NamesAProcessWithRecordsOfAnotherVersion) {
  const FileDescriptor shown = FileDescriptor::kept_by_children(::memfd_create("sinew other", MFD_CLOEXEC));
  ASSERT_TRUE(shown);
  const std::uint64_t magic = RecordPage::kMagic - (std::uint64_t{1} << 56);
  ASSERT_EQ(::pwrite(shown.get(), &magic, sizeof magic, 4096), static_cast<ssize_t>(sizeof magic));
  ASSERT_EQ(::ftruncate(shown.get(), 1 << 16), 0);
  const std::string self = std::to_string(::getpid());
  const Outcome o = watch({"--process", self});
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_THAT(o.err, HasSubstr("process " + self + " has records of another version of sinew"));
}

TEST(Watch, SaysWhoseProcessesItMayLookAt) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const std::vector<std::string> as_nobody{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
  std::vector<std::string> command = as_nobody;
  command.insert(command.end(), {SINEW_INFO, "--version"});
  if (const Outcome o = run_program(command); o.exit_code != 0)
    GTEST_SKIP() << "another user cannot run " SINEW_INFO << ": " << o.err;
  command = as_nobody;
  command.insert(command.end(), {SINEW_INFO, "watch", "--process", std::to_string(::getpid())});
  const Outcome o = run_program(command);
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_THAT(o.err, HasSubstr("this user may not look at it"));
}

/// Runs the watch on a terminal of 40 columns, and types Ctrl-C once `frames` tables have come. Returns all that was
/// written.
std::string on_a_terminal(const std::vector<std::string>& options, bool no_colour, int frames, int& exit_code) {
  winsize size{};
  size.ws_col = 40, size.ws_row = 12;
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    no_colour ? ::setenv("NO_COLOR", "1", 1) : ::unsetenv("NO_COLOR");
    std::vector<std::string> words{SINEW_INFO, "watch"};
    words.insert(words.end(), options.begin(), options.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execv(SINEW_INFO, arguments.data());
    ::_exit(127);
  }
  std::string text;
  char room[4096];
  bool is_told = false;
  for (ssize_t came = 0; (came = ::read(terminal, room, sizeof room)) > 0;) {
    text.append(room, static_cast<std::size_t>(came));
    int drawn = 0;
    for (std::size_t at = text.find("started by"); at != std::string::npos; at = text.find("started by", at + 1))
      ++drawn;
    if (drawn < frames || is_told) continue;
    is_told = ::write(terminal, "\x03", 1) == 1;
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(terminal);
  exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return text;
}

/// The text without colours and movements of the cursor.
std::string without_escapes(const std::string& text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\x1b') {
      while (++at < text.size() && !std::isalpha(static_cast<unsigned char>(text[at]))) {
      }
    } else if (text[at] != '\r') {
      plain += text[at];
    }
  }
  return plain;
}

TEST(Watch, RefreshesItsTableInPlace_OnANarrowTerminal) {
  const RunningJob job(2);
  ASSERT_TRUE(job.has_begun()) << job.output();
  int exit_code = -1;
  const std::string text = on_a_terminal({"--process", job.launcher(), "--interval", "200ms"}, false, 3, exit_code);
  EXPECT_EQ(exit_code, 0) << text;
  EXPECT_THAT(text, AllOf(HasSubstr("\x1b[4A\r\x1b[J"), HasSubstr("\x1b[1m")));  // up by the four lines of a frame
  for (const std::string& line : lines_of(without_escapes(text))) EXPECT_LE(line.size(), 42U) << line;  // with ^C
}

TEST(Watch, HonoursNoColor) {
  const RunningJob job(2);
  ASSERT_TRUE(job.has_begun()) << job.output();
  int exit_code = -1;
  const std::string text = on_a_terminal({"--process", job.launcher(), "--interval", "200ms"}, true, 2, exit_code);
  EXPECT_EQ(exit_code, 0) << text;
  EXPECT_THAT(text, AllOf(HasSubstr("\x1b[J"), Not(HasSubstr("\x1b[1m")), Not(HasSubstr("\x1b[3"))));
}

}  // namespace
}  // namespace sinew::test
