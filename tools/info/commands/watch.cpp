#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>
#include <sinew/tools/common/whole_number.hpp>
#include <sinew/tools/info/jobs/job_table.hpp>
#include <sinew/tools/info/jobs/job_watch.hpp>
#include <sinew/topology/format/json/json_text.hpp>

#include "commands.hpp"

namespace sinew::tools {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr milliseconds kShortestInterval{100};
/// From the first look, which gives no rates, to the first table.
constexpr milliseconds kUntilFirstTable{300};

struct WatchOptions {
  std::string folder;
  std::vector<pid_t> processes;
  std::string interval = "1s";
  std::int64_t tables = 0;  // 0: until the job ends
  std::int64_t after_ms = 1000;
};

/// SIGINT and SIGTERM, which end the watch in order. They are blocked while the object lives.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~EndSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  /// Sleeps. Returns true if a signal has ended the sleep.
  bool sleep(milliseconds time) const {
    const timespec wait{time.count() / 1000, time.count() % 1000 * 1'000'000};
    return sigtimedwait(&signals_, nullptr, &wait) > 0;
  }

 private:
  sigset_t signals_;
  sigset_t before_;
};

/// Shows one frame after another: in the same place of a terminal, else each behind the one before.
class Frames {
 public:
  /// The view of a table that is one of `count` in a frame.
  TableView view(std::size_t count) const {
    if (!is_terminal_) return {};
    winsize size{};
    const bool is_known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    const std::size_t columns = is_known ? size.ws_col : 80, rows = is_known ? size.ws_row : 24;
    return {.width = columns, .height = (rows - 1) / std::max<std::size_t>(count, 1), .has_colour = has_colour_};
  }
  void show(const std::string& text) {
    if (is_terminal_ && lines_ > 0) std::cout << fmt::format("\x1b[{}A\r\x1b[J", lines_);
    std::cout << text << std::flush;
    lines_ = static_cast<std::size_t>(std::ranges::count(text, '\n'));
  }

 private:
  static bool is_colour_refused() {
    const char* no_colour = std::getenv("NO_COLOR");
    return no_colour != nullptr && *no_colour != '\0';
  }

  const bool is_terminal_ = ::isatty(STDOUT_FILENO) == 1;
  const bool has_colour_ = is_terminal_ && !is_colour_refused();
  std::size_t lines_ = 0;  // of the frame that stands on the terminal
};

Json number_or_null(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }

Json to_json(const WatchedRank& r) {
  Json counters = Json::array();
  for (const CountersSeen& c : r.counters)
    counters.push_back({{"communicator", c.communicator},
                        {"collective", c.collective},
                        {"transport", c.transport},
                        {"calls", c.calls},
                        {"bytes", c.bytes},
                        {"failed", c.failed}});
  return {{"rank", r.rank},
          {"process", r.process},
          {"state", std::string(name_of(r.state))},
          {"call", r.call},
          {"communicator", r.communicator},
          {"for_s", r.for_s},
          {"calls_per_s", number_or_null(r.calls_per_s)},
          {"bytes_per_s", number_or_null(r.bytes_per_s)},
          {"late", r.delays},
          {"waits_for", r.waits_for ? Json(*r.waits_for) : Json(nullptr)},
          {"counters", counters}};
}

/// One line for a look at all jobs.
std::string json_line(const std::vector<WatchedJob>& jobs) {
  Json all = Json::array();
  for (const WatchedJob& job : jobs) {
    Json ranks = Json::array(), stuck = Json::array();
    for (const WatchedRank& r : job.ranks) ranks.push_back(to_json(r));
    for (const StuckCall& s : job.stuck)
      stuck.push_back({{"call", s.call},
                       {"waited_ms", s.waited_ms},
                       {"cause", std::string(name_of(s.cause))},
                       {"blamed", s.blamed},
                       {"verdict", s.text}});
    all.push_back({{"job", job.name}, {"over", job.is_over}, {"ranks", ranks}, {"stuck", stuck}});
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const double seconds = std::chrono::duration<double>(now).count();
  return json_text(Json{{"time", seconds}, {"jobs", all}}, -1) + "\n";
}

std::string tables_of(const std::vector<WatchedJob>& jobs, const TableView& view) {
  std::string text;
  for (const WatchedJob& job : jobs) text += job_table(job, view);
  return text;
}

milliseconds interval_of(const std::string& text) {
  const auto interval = std::chrono::duration_cast<milliseconds>(parse_duration(text));
  if (interval < kShortestInterval)
    throw Error(Code::InvalidArgument, fmt::format("--interval {}: expected at least 100ms", text));
  return interval;
}

bool all_over(const std::vector<WatchedJob>& jobs) { return std::ranges::all_of(jobs, &WatchedJob::is_over); }

/// Returns the exit code.
int watch(const WatchOptions& asked, bool json) {
  const milliseconds interval = interval_of(asked.interval);
  JobWatch jobs(asked.folder, asked.processes, milliseconds(asked.after_ms));
  const EndSignals signals;
  Frames frames;
  std::vector<WatchedJob> seen = jobs.look();
  if (!all_over(seen)) {
    if (signals.sleep(std::min(interval, kUntilFirstTable))) return 0;
    seen = jobs.look();
  }
  for (std::int64_t shown = 1; !seen.empty(); ++shown) {
    frames.show(json ? json_line(seen) : tables_of(seen, frames.view(seen.size())));
    if (!std::cout || shown == asked.tables || all_over(seen) || signals.sleep(interval)) break;
    seen = jobs.look();
  }
  return jobs.any_died() ? 1 : 0;
}

}  // namespace

void add_watch_command(CLI::App& app, const InfoOptions& options, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "watch", "A table of the ranks of running jobs, again and again: in which call, how fast, and who is late");
  auto asked = std::make_shared<WatchOptions>();
  command->add_option("folder", asked->folder, "Where SINEW_TRACE keeps the records; without it this host's processes")
      ->type_name("DIR");
  command->add_option("--process", asked->processes, "Of these, or of those that they have started: a launcher")
      ->type_name("PID")
      ->transform(whole_number(1, std::numeric_limits<pid_t>::max()))
      ->delimiter(',')
      ->excludes("folder");
  command->add_option("--interval", asked->interval, "Time between two tables: 500ms, 1s, 2min")
      ->type_name("TIME")
      ->capture_default_str();
  command->add_option("--count", asked->tables, "Tables until the end; 0: until the job ends")
      ->transform(whole_number(0, std::numeric_limits<std::int64_t>::max()))
      ->capture_default_str();
  command->add_option("--after", asked->after_ms, "Milliseconds that a call must have waited until somebody is late")
      ->transform(whole_number(0, std::numeric_limits<std::int64_t>::max() / 1'000'000))
      ->capture_default_str();
  command->footer(
      "On a terminal the table is refreshed in its place; elsewhere one table follows another. --json prints a line\n"
      "for each. A narrow terminal shows fewer columns. NO_COLOR=1 leaves out colours.\n"
      "bytes/s counts the larger buffer of each call, as sinew-bench does, and not what a transport sends.\n"
      "Ends when the job does, after --count tables, or with Ctrl-C: with 0, or with 1 where a rank has died, or with "
      "2\n"
      "where there is no job to look at.\n\n"
      "Examples:\n"
      "  sinew-info watch                              all jobs of this user on this host\n"
      "  sinew-info watch --process 1234               the job that process 1234, a launcher, has started\n"
      "  sinew-info watch records                      a job that runs with SINEW_TRACE=records\n"
      "  sinew-info watch --json --interval 10s        for scripts\n");
  command->callback([&options, &exit_code, asked] { exit_code = watch(*asked, options.json); });
}

}  // namespace sinew::tools
