#include <cstdint>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <sinew/core/base/table.hpp>
#include <sinew/tools/common/whole_number.hpp>
#include <sinew/tools/info/jobs/record_sources.hpp>
#include <sinew/topology/format/json/json_text.hpp>

#include "commands.hpp"

namespace sinew::tools {
namespace {

using Json = nlohmann::ordered_json;

struct HangOptions {
  std::string folder;
  std::vector<pid_t> processes;
  std::int64_t after_ms = 1000;
};

Json to_json(const JobRecords& job, const Diagnosis& d) {
  Json stuck = Json::array(), ranks = Json::array();
  for (const StuckCall& s : d.stuck)
    stuck.push_back({{"communicator", s.communicator},
                     {"sequence", s.sequence},
                     {"call", s.call},
                     {"waiting", s.waiting},
                     {"waited_ms", s.waited_ms},
                     {"cause", std::string(name_of(s.cause))},
                     {"blamed", s.blamed},
                     {"verdict", s.text}});
  for (const RankWhereabouts& r : d.ranks)
    ranks.push_back({{"rank", r.rank},
                     {"process", r.process},
                     {"gone", r.gone},
                     {"left", r.left},
                     {"stopped", r.stopped},
                     {"where", r.text}});
  return {{"job", job.name}, {"stuck", stuck}, {"ranks", ranks}};
}

void print_text(const JobRecords& job, const Diagnosis& d, std::int64_t least_ms) {
  std::cout << fmt::format("{}: {} rank{}\n", job.name, d.ranks.size(), d.ranks.size() == 1 ? "" : "s");
  if (d.stuck.empty())
    std::cout << (least_ms == 0 ? "  nothing waits\n"
                                : fmt::format("  nothing has waited {} ms (--after)\n", least_ms));
  for (const StuckCall& s : d.stuck) {
    std::cout << fmt::format("  {}: {}\n    waiting in it: rank{} {}\n", name_of(s.cause), s.text,
                             s.waiting.size() == 1 ? "" : "s", fmt::join(s.waiting, ", "));
  }
  Table ranks({{}, {}, {}, {}}, "  ");
  for (const RankWhereabouts& r : d.ranks) {
    const char* state = r.left ? "left" : r.gone ? "gone" : r.stopped ? "stopped" : "alive";
    ranks.add({fmt::format("rank {}", r.rank), fmt::format("process {}", r.process), state, r.text});
  }
  std::cout << ranks.text();
}

bool any_alive(const JobRecords& job) {
  for (const RankRecords& of : job.ranks) {
    if (!of.gone()) return true;
  }
  return false;
}

}  // namespace

void add_hang_command(CLI::App& app, const InfoOptions& options, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "hang", "What a job waits for, and for whom: of running processes of this host, or of a folder of records");
  auto asked = std::make_shared<HangOptions>();
  command->add_option("folder", asked->folder, "Where SINEW_TRACE kept the records; without it running processes")
      ->type_name("DIR");
  command->add_option("--process", asked->processes, "Of these, or of those that they have started: a launcher")
      ->type_name("PID")
      ->transform(whole_number(1, std::numeric_limits<pid_t>::max()))
      ->delimiter(',')
      ->excludes("folder");
  command->add_option("--after", asked->after_ms, "Milliseconds that a call must have waited")
      ->transform(whole_number(0, std::numeric_limits<std::int64_t>::max() / 1'000'000))
      ->capture_default_str();
  command->footer(
      "The cause of each call that waits: dead, left, mismatched, stopped, in another call, not called, on its way,\n"
      "or unknown, where its records cannot be read.\n"
      "Ends with 1 where something waits, 0 where nothing does, 2 where there is nothing to look at.\n\n"
      "Examples:\n"
      "  sinew-info hang                          all jobs of this user on this host\n"
      "  sinew-info hang --process 1234           the job that process 1234, a launcher, has started\n"
      "  sinew-info hang records                  a job that ran, or runs, with SINEW_TRACE=records\n");
  command->callback([&options, &exit_code, asked] {
    const std::vector<JobRecords> jobs =
        asked->folder.empty() ? jobs_running(asked->processes) : jobs_in_folder(asked->folder);
    Json all = Json::array();
    for (const JobRecords& job : jobs) {
      const std::int64_t now = any_alive(job) ? coarse_now() : last_moment(job.ranks);
      const std::int64_t least_ms = any_alive(job) ? asked->after_ms : 0;
      const Diagnosis d = diagnose(job.ranks, now, least_ms);
      if (!d.stuck.empty()) exit_code = 1;
      options.json ? all.push_back(to_json(job, d)) : print_text(job, d, least_ms);
    }
    if (options.json) std::cout << json_text(all, 2) << "\n";
  });
}

}  // namespace sinew::tools
