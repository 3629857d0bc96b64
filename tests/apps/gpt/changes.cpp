// Kills ranks of a training that goes on without them, and lets them come back, again and again. Compares the losses
// with those of an undisturbed run.
// changes --gpt GPT --sinew-run SINEW_RUN --changes 200 --seed 1 --ranks 8 --spares 1 -- --tp 2 --pp 2
// Prints a line of JSON: {"changes","kills","hangs","failures","steps","worst","longest_pause_s","seconds"}.
// worst: the largest difference of a loss, divided by the loss. A hang is a minute without a step. Ends with 1 after a
// hang, after a job that failed, and if worst is more than --most-off.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct Options {
  std::string gpt, sinew_run;
  int changes = 200;
  std::uint64_t seed = 1;
  int ranks = 8;
  int least = 1;
  int spares = 0;
  std::int64_t steps = 4000;
  double most_off = 1e-10;  // of a loss
  int quiet_ms = 300;       // at most, between two changes
  bool keep = false;        // leaves a job that hangs alone, to be looked at
  std::vector<std::string> model;
};

pid_t start(const std::vector<std::string>& command, const std::string& log) {
  std::fflush(stdout);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  if (std::freopen(log.c_str(), "w", stdout) == nullptr) ::_exit(127);
  ::dup2(1, 2);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execv(words.front(), words.data());
  ::_exit(127);
}

/// The losses by step. A line that is not whole yet is left out.
std::map<std::int64_t, double> losses_in(const std::string& file) {
  std::map<std::int64_t, double> losses;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const auto j = nlohmann::json::parse(line, nullptr, false);
    if (!j.is_discarded()) losses[j.at("step").get<std::int64_t>()] = j.at("loss").get<double>();
  }
  return losses;
}

/// The latest step in the file; -1: there is none. It reads the end of the file only.
std::int64_t last_step_in(const std::string& file) {
  constexpr std::streamoff kEnd = 4096;  // not a page
  std::ifstream lines(file, std::ios::ate);
  if (!lines) return -1;
  lines.seekg(std::max<std::streamoff>(lines.tellg() - kEnd, 0));
  std::int64_t step = -1;
  for (std::string line; std::getline(lines, line);) {
    const auto j = nlohmann::json::parse(line, nullptr, false);
    if (j.is_object()) step = j.at("step").get<std::int64_t>();
  }
  return step;
}

/// The ranks and spares that sinew-run has started and that live.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  std::ifstream list(fmt::format("/proc/{}/task/{}/children", parent, parent));
  for (pid_t child = 0; list >> child;) children.push_back(child);
  return children;
}

bool has_ended(pid_t pid, int& status) { return ::waitpid(pid, &status, WNOHANG) == pid; }

class Changes {
 public:
  explicit Changes(const Options& options)
      : options_(options),
        folder_(std::filesystem::temp_directory_path() / fmt::format("changes-{}", ::getpid())),
        random_(options.seed) {
    std::filesystem::create_directories(folder_);
  }
  ~Changes() { std::filesystem::remove_all(folder_); }
  Changes(const Changes&) = delete;
  Changes& operator=(const Changes&) = delete;

  int run() {
    const auto begin = Clock::now();
    std::map<std::int64_t, double> disturbed;
    for (int job = 0; made_ < options_.changes && hangs_ == 0 && failures_ == 0; ++job) {
      is_disturbed_ = true;
      disturbed = disturb(job);
      is_disturbed_ = false;
      compare(disturbed);
    }
    const std::chrono::duration<double> took = Clock::now() - begin;
    nlohmann::json line{{"changes", made_},
                        {"kills", kills_},
                        {"hangs", hangs_},
                        {"failures", failures_},
                        {"steps", compared_},
                        {"worst", worst_},
                        {"longest_pause_s", std::round(longest_pause_s_ * 1e3) / 1e3},
                        {"seconds", std::round(took.count() * 10) / 10}};
    fmt::print("{}\n", line.dump());
    const bool well = hangs_ == 0 && failures_ == 0 && made_ >= options_.changes && compared_ > 0;
    return well && worst_ <= options_.most_off ? 0 : 1;
  }

 private:
  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  std::vector<std::string> training(const std::string& metrics, std::int64_t steps) const {
    std::vector<std::string> command{options_.gpt, "--steps", fmt::format("{}", steps), "--metrics", metrics};
    command.insert(command.end(), options_.model.begin(), options_.model.end());
    return command;
  }

  /// One job, disturbed until all changes are made or its steps are done. Returns its losses.
  std::map<std::int64_t, double> disturb(int job) {
    const std::string metrics = file(fmt::format("job{}", job));
    const std::string log = file(fmt::format("log{}", job));
    std::vector<std::string> command{options_.sinew_run,
                                     "-n",
                                     fmt::format("{}", options_.ranks),
                                     "--min-ranks",
                                     fmt::format("{}", options_.least),
                                     "--restarts",
                                     "100000",
                                     "--backoff",
                                     "10ms,50ms"};
    if (options_.spares > 0) command.insert(command.end(), {"--spares", fmt::format("{}", options_.spares)});
    for (const std::string& word : training(metrics, options_.steps)) command.push_back(word);
    const pid_t launcher = start(command, log);
    std::int64_t step = await_step(launcher, metrics, -1);
    while (step >= 0 && made_ < options_.changes) {
      change(launcher);
      const bool at_once = random_() % 4 == 0;  // the next change comes before the job has recovered from this one
      if (at_once) {
        std::this_thread::sleep_for(milliseconds(random_() % 30));
        continue;
      }
      step = await_step(launcher, metrics, step);
      std::this_thread::sleep_for(milliseconds(random_() % static_cast<unsigned>(options_.quiet_ms)));
    }
    int status = 0;
    if (step >= 0) step = await_step(launcher, metrics, step + 3);
    if (step == kHang) {
      ++hangs_;
      if (options_.keep) {
        fmt::print(stderr, "sinew-run is process {}, its output is in {}\n", launcher, log);
        std::this_thread::sleep_for(std::chrono::minutes(30));
      }
      std::ifstream said(log);
      std::string text((std::istreambuf_iterator<char>(said)), {});
      fmt::print(stderr, "no step for a minute; the end of what the job printed:\n{}\n",
                 text.substr(text.size() > 6000 ? text.size() - 6000 : 0));
    }
    if (step != kEnded) {  // its further steps show nothing new
      ::kill(launcher, SIGTERM);
      std::this_thread::sleep_for(milliseconds(100));
      ::kill(launcher, SIGTERM);
      ::waitpid(launcher, &status, 0);
    } else if (!ended_well_) {
      ++failures_;
      std::ifstream said(log);
      std::string text((std::istreambuf_iterator<char>(said)), {});
      fmt::print(stderr, "the job failed; the end of what it printed:\n{}\n",
                 text.substr(text.size() > 6000 ? text.size() - 6000 : 0));
    }
    return losses_in(metrics);
  }

  /// Kills one process, or two at the same time.
  void change(pid_t launcher) {
    std::vector<pid_t> alive = children_of(launcher);
    std::ranges::shuffle(alive, random_);
    const std::size_t victims = random_() % 4 == 0 ? 2 : 1;
    for (std::size_t i = 0; i < std::min(victims, alive.size()); ++i) {
      ::kill(alive[i], SIGKILL);
      ++kills_;
    }
    ++made_;
  }

  static constexpr std::int64_t kHang = -2;
  static constexpr std::int64_t kEnded = -3;

  /// Waits for a step after this one, and returns its number. kHang: none came for a minute. kEnded: the job has ended.
  std::int64_t await_step(pid_t launcher, const std::string& metrics, std::int64_t step) {
    const auto begin = Clock::now();
    for (;;) {
      const std::int64_t now = last_step_in(metrics);
      const std::chrono::duration<double> waited = Clock::now() - begin;
      if (now > step) {
        if (step >= 0 && is_disturbed_) longest_pause_s_ = std::max(longest_pause_s_, waited.count());
        return now;
      }
      int status = 0;
      if (has_ended(launcher, status)) {
        ended_well_ = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        return kEnded;
      }
      if (waited > seconds(60)) return kHang;
      std::this_thread::sleep_for(milliseconds(3));
    }
  }

  /// Compares with the losses of an undisturbed run.
  void compare(const std::map<std::int64_t, double>& disturbed) {
    if (disturbed.empty()) return;
    const std::int64_t steps = disturbed.rbegin()->first + 1;
    if (std::ssize(disturbed) != steps) {
      fmt::print(stderr, "{} steps of {} are in the metrics\n", disturbed.size(), steps);
      ++failures_;
    }
    const std::string metrics = file("undisturbed");
    std::vector<std::string> command{options_.sinew_run, "-n", fmt::format("{}", options_.ranks)};
    // As many steps: the learning rate follows from their number.
    for (const std::string& word : training(metrics, options_.steps)) command.push_back(word);
    std::filesystem::remove(metrics);
    const pid_t launcher = start(command, file("undisturbed.log"));
    await_step(launcher, metrics, steps - 2);
    ::kill(launcher, SIGTERM);
    int status = 0;
    ::waitpid(launcher, &status, 0);
    const auto right = losses_in(metrics);
    for (const auto& [step, loss] : disturbed) {
      const auto at = right.find(step);
      if (at == right.end()) {
        fmt::print(stderr, "the undisturbed run has no step {}\n", step);
        ++failures_;
        return;
      }
      worst_ = std::max(worst_, std::abs(loss - at->second) / std::abs(at->second));
      ++compared_;
    }
  }

  const Options& options_;
  const std::filesystem::path folder_;
  std::mt19937_64 random_;
  int made_ = 0;
  int kills_ = 0;
  int hangs_ = 0;
  int failures_ = 0;
  bool ended_well_ = false;
  bool is_disturbed_ = false;
  std::int64_t compared_ = 0;
  double worst_ = 0;
  double longest_pause_s_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Disturbs a training whose ranks leave and come back.");
  app.add_option("--gpt", options.gpt)->required();
  app.add_option("--sinew-run", options.sinew_run)->required();
  app.add_option("--changes", options.changes);
  app.add_option("--seed", options.seed);
  app.add_option("--ranks", options.ranks);
  app.add_option("--min-ranks", options.least);
  app.add_option("--spares", options.spares);
  app.add_option("--steps", options.steps);
  app.add_option("--most-off", options.most_off);
  app.add_option("--quiet-ms", options.quiet_ms);
  app.add_flag("--keep", options.keep);
  app.add_option("model", options.model, "Options of gpt, behind --");
  CLI11_PARSE(app, argc, argv);
  return Changes(options).run();
}
