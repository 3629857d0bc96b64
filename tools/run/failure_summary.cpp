#include "failure_summary.hpp"

#include <algorithm>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <sinew/tools/run/output/rank_set.hpp>

namespace sinew::run {
namespace {

std::string named(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  return ranges_of(ranks);
}

}  // namespace

void FailureSummary::add(int rank, const std::string& host, const Ending& ending, bool by_launcher) {
  if (first_.empty()) {
    first_.push_back({rank, host, ending, std::chrono::system_clock::now(), Clock::now() - start_});
  } else if (by_launcher) {
    ended_.push_back(rank);
  } else {
    failed_[ending.text()].push_back(rank);
  }
}

std::vector<std::string> FailureSummary::lines(const std::string& logs) const {
  if (first_.empty()) return {};
  const First& f = first_.front();
  const std::string pid = f.ending.pid < 0 ? "" : fmt::format(", pid {}", f.ending.pid);
  const auto second = std::chrono::time_point_cast<std::chrono::seconds>(f.when);
  std::vector<std::string> all = {
      fmt::format("the job failed: rank {} on host {}{} {} at {:%Y-%m-%dT%H:%M:%SZ}, {:.1f} s after the start", f.rank,
                  f.host, pid, f.ending.text(), fmt::gmtime(second), std::chrono::duration<double>(f.after).count())};
  if (std::string_view rest = f.ending.last_errors; !rest.empty()) {
    all.push_back(fmt::format("the last lines of rank {}'s standard error:", f.rank));
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      all.push_back(fmt::format("  | {}", line));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    }
  }
  if (!ended_.empty()) all.push_back(fmt::format("sinew-run then ended {}", named(ended_)));
  for (const auto& [how, ranks] : failed_) all.push_back(fmt::format("after that {} {}", named(ranks), how));
  if (!logs.empty())
    all.push_back(fmt::format("the log files of rank {0} are {1}/{0}/stderr.log and stdout.log on host {2}", f.rank,
                              logs, f.host));
  return all;
}

}  // namespace sinew::run
