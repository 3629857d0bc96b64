#include <algorithm>
#include <ctime>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <sinew/collectives/trace/job_trace.hpp>
#include <sinew/topology/format/json/json_text.hpp>

#include "../output_file.hpp"
#include "../progress.hpp"
#include "../time_text.hpp"
#include "chrome_trace.hpp"
#include "commands.hpp"

namespace sinew::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShown = 10;
constexpr double kNano = 1e-9;

struct TraceOptions {
  std::string folder;
  std::string chrome;
};

/// "3", "1, 2, 3", "0, 1, 2, 3, 4, 5, 6, 7 and 56 more"
std::string list_of(const std::vector<int>& ranks) {
  constexpr std::size_t kNamed = 8;
  if (ranks.size() <= kNamed) return fmt::format("{}", fmt::join(ranks, ", "));
  return fmt::format("{} and {} more", fmt::join(ranks.begin(), ranks.begin() + kNamed, ", "), ranks.size() - kNamed);
}

std::string ranks_of(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", list_of(ranks));
}

/// What keeps the picture from being whole, a line each.
std::vector<std::string> gaps_of(const JobLogs& job, const std::string& folder) {
  std::vector<std::string> gaps;
  if (!job.missing.empty())
    gaps.push_back(fmt::format("{} of {}: no log; calls are judged without", ranks_of(job.missing), job.ranks));
  std::vector<int> open;
  for (const RankLog& log : job.logs) {
    const LogSummary& a = log.about();
    if (!a.closed) open.push_back(a.rank);
    if (a.truncated != 0)
      gaps.push_back(fmt::format("rank {}: its log is cut after {} calls, {} more were made: {}", a.rank, a.calls,
                                 a.lost, std::generic_category().message(a.truncated)));
    if (a.damaged != 0)
      gaps.push_back(fmt::format("rank {}: {} cells of its log are damaged, and passed over", a.rank, a.damaged));
  }
  if (!open.empty())
    gaps.push_back(
        fmt::format("{}: still running, or ended before the World did: sinew-info hang {}", ranks_of(open), folder));
  return gaps;
}

std::string clock_text(const JobTrace& trace) {
  if (trace.clock_error < 0) return "clocks of hosts that cannot be compared: skews between them say nothing";
  if (trace.clock_error == 0) return "one clock";
  return fmt::format("clocks of hosts compared when the World was made: skews are right give or take {}",
                     time_text(static_cast<double>(trace.clock_error) * kNano));
}

double seconds_of(const JobLogs& job) {
  std::int64_t first = job.logs.front().about().opened, last = first;
  for (const RankLog& log : job.logs) {
    first = std::min(first, log.about().opened);
    last = std::max(last, log.about().ended);
  }
  return static_cast<double>(last - first) * kNano;
}

std::string text_of(const UnfinishedCall& call) {
  return fmt::format("communicator {}, call {}: {}: {} in it{}", call.communicator, call.sequence, call.call,
                     ranks_of(call.waiting),
                     call.absent.empty() ? "" : fmt::format("; {} never came", ranks_of(call.absent)));
}

void print_text(const std::string& folder, const JobLogs& job, const JobTrace& trace) {
  const std::time_t begun = job.opened_realtime / 1'000'000'000;
  std::tm local{};
  ::localtime_r(&begun, &local);
  std::cout << fmt::format("{}, generation {} of {:%Y-%m-%d %H:%M:%S}: {} rank{}, {} calls in {}; {}\n", folder,
                           job.generation, local, job.ranks, job.ranks == 1 ? "" : "s", trace.calls,
                           time_text(seconds_of(job)), clock_text(trace));
  for (const CommunicatorTrace& c : trace.communicators) {
    if (c.calls.empty()) continue;
    std::cout << fmt::format("\ncommunicator {} of {}\n{}", c.id, ranks_of(c.world_ranks), to_text(c.calls));
  }
  if (trace.unfinished_calls > 0) {
    std::cout << fmt::format("\n{} call{} never completed; sinew-info hang {} says why\n", trace.unfinished_calls,
                             trace.unfinished_calls == 1 ? "" : "s", folder);
    const std::size_t shown = std::min(kShown, trace.unfinished.size());
    for (std::size_t i = 0; i < shown; ++i) std::cout << "  " << text_of(trace.unfinished[i]) << "\n";
    if (trace.unfinished_calls > shown) std::cout << fmt::format("  and {} more\n", trace.unfinished_calls - shown);
  }
  for (const std::string& gap : gaps_of(job, folder)) std::cout << gap << "\n";
}

Json to_json(const CallStats& c) {
  return {{"collective", std::string(name_of(c.collective))},
          {"dtype", std::string(name_of(c.dtype))},
          {"bytes", c.bytes},
          {"algorithm", c.algorithm},
          {"transport", c.transport},
          {"calls", c.calls},
          {"failed", c.failed},
          {"judged", c.judged},
          {"total_s", c.total},
          {"time_us", c.time_median * 1e6},
          {"busbw_GBps", c.busbw * 1e-9},
          {"skew_us", c.skew_median * 1e6},
          {"skew_worst_us", c.skew_worst * 1e6},
          {"last_rank", c.last_rank < 0 ? Json() : Json(c.last_rank)},
          {"last_calls", c.last_calls},
          {"predicted_us", c.predicted > 0 ? Json(c.predicted * 1e6) : Json()}};
}

Json to_json(const JobLogs& job, const JobTrace& trace) {
  Json communicators = Json::array(), unfinished = Json::array(), logs = Json::array();
  for (const CommunicatorTrace& c : trace.communicators) {
    Json calls = Json::array();
    for (const CallStats& s : c.calls) calls.push_back(to_json(s));
    communicators.push_back({{"id", c.id}, {"identity", c.identity}, {"ranks", c.world_ranks}, {"calls", calls}});
  }
  for (const UnfinishedCall& u : trace.unfinished)
    unfinished.push_back({{"communicator", u.communicator},
                          {"sequence", u.sequence},
                          {"call", u.call},
                          {"waiting", u.waiting},
                          {"absent", u.absent}});
  for (const RankLog& log : job.logs) {
    const LogSummary& a = log.about();
    logs.push_back({{"rank", a.rank},
                    {"host", a.host},
                    {"process", a.process},
                    {"calls", a.calls},
                    {"closed", a.closed},
                    {"lost", a.lost},
                    {"damaged", a.damaged}});
  }
  return {{"generation", job.generation},
          {"ranks", job.ranks},
          {"seconds", seconds_of(job)},
          {"calls", trace.calls},
          {"clock_error_us", trace.clock_error < 0 ? Json() : Json(static_cast<double>(trace.clock_error) * 1e-3)},
          {"communicators", communicators},
          {"unfinished_calls", trace.unfinished_calls},
          {"unfinished", unfinished},
          {"logs", logs},
          {"missing", job.missing}};
}

bool is_whole(const JobLogs& job, const JobTrace& trace) {
  return job.missing.empty() && trace.unfinished_calls == 0 && std::ranges::all_of(job.logs, [](const RankLog& log) {
           return log.about().truncated == 0 && log.about().damaged == 0;
         });
}

void trace_command(const InfoOptions& options, const TraceOptions& asked, int& exit_code) {
  OutputFile chrome("--chrome", asked.chrome);
  const bool prints = leaves_standard_output({&chrome}, options.json);
  const FolderLogs found = logs_in_folder(asked.folder);
  Json jobs = Json::array();
  for (const JobLogs& job : found.jobs) {
    const JobTrace trace = trace_of(job);
    if (!is_whole(job, trace)) exit_code = 1;
    if (options.json) {
      jobs.push_back(to_json(job, trace));
    } else if (prints) {
      if (&job != &found.jobs.front()) std::cout << "\n";
      print_text(asked.folder, job, trace);
    }
  }
  if (!found.refused.empty()) exit_code = 1;
  for (const std::string& why : found.refused) std::cerr << "sinew-info: left out: " << why << "\n";
  if (options.json) std::cout << json_text(jobs, 2) << "\n";
  if (!chrome.wanted()) return;
  const JobLogs& latest = found.jobs.front();
  Progress progress(latest.logs.size());
  chrome.write([&](std::ostream& to) {
    write_chrome_trace(latest, to, [&](std::size_t log) {
      progress.show(log,
                    fmt::format("rank {}, {} calls", latest.logs[log].about().rank, latest.logs[log].about().calls));
    });
  });
}

}  // namespace

void add_trace_command(CLI::App& app, const InfoOptions& options, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "trace", "What each call of a job took, who was late for it, and what was predicted: of a folder of logs");
  auto asked = std::make_shared<TraceOptions>();
  command->add_option("folder", asked->folder, "Where SINEW_TRACE kept the logs of all ranks")
      ->type_name("DIR")
      ->required();
  command
      ->add_option("--chrome", asked->chrome,
                   "Write all calls of the latest World for chrome://tracing and ui.perfetto.dev")
      ->type_name("FILE");
  command->footer(
      "A line for each kind of call, dtype and size of each communicator:\n"
      "  time       from the coming of the last rank to the end on all: what the network took; the median\n"
      "  GB/s       bus bandwidth at that time, as nccl-tests counts it\n"
      "  skew       from the coming of the first rank to that of the last: what ranks waited; median and worst\n"
      "  last       which rank came last most often, and in how many of the calls: the one to look at\n"
      "  predicted  what the choice of this way went by, and how many times as long it took\n"
      "Messages (send, recv) take what they take on their own rank, and have no skew.\n"
      "Several Worlds in a folder, the latest first: jobs one after the other, generations after a shrink.\n"
      "Logs of several hosts must lie in one folder: copy them together.\n"
      "Ends with 0 where all is there and every call came to its end, 1 where not, 2 where there is nothing to "
      "read.\n\n"
      "Examples:\n"
      "  SINEW_TRACE=records sinew-run -n 4 ./trainer     a job that logs every call\n"
      "  sinew-info trace records                         what they took, also while it runs or after it died\n"
      "  sinew-info trace records --chrome calls.json     each call on a time line: ui.perfetto.dev opens it\n"
      "  sinew-info trace records --json                  the table for scripts\n");
  command->callback([&options, &exit_code, asked] { trace_command(options, *asked, exit_code); });
}

}  // namespace sinew::tools
