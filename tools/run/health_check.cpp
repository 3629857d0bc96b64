#include "health_check.hpp"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/core/system/host_name.hpp>
#include <sinew/tools/run/output/last_lines.hpp>

namespace sinew::run {
namespace {

std::string name_of(const HostShare& place) { return place.host.empty() ? host_name() : place.host; }

void say(const HostShare& place, const std::string& what) {
  fmt::print(stderr, "sinew-run: check: host {}: {}\n", name_of(place), what);
}

/// The index of the place that a rank runs in, where all places are taken.
std::size_t place_of(const std::vector<HostShare>& places, int rank) {
  std::size_t place = 0;
  for (int first = 0; rank >= first + places[place].ranks; ++place) first += places[place].ranks;
  return place;
}

/// The job's ranks, as doctors.
Options doctors(const Options& job) {
  Options options = job;
  options.elastic.reset();
  options.shares = job.places;
  options.ranks = 0;
  for (const HostShare& place : job.places) options.ranks += place.ranks;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  // The folder of SINEW_TRACE is for the job.
  options.command = {"env", "-u", "SINEW_TRACE", self.parent_path() / "sinew-info", "doctor", "--json"};
  return options;
}

}  // namespace

HealthCheck::HealthCheck(const Config& config, const SignalDescriptor& signals) : config_(config), signals_(signals) {
  config_.timeout = std::min<Duration>(config_.timeout, std::chrono::seconds(30));
}

int HealthCheck::run(Options& options) {
  deadline_ = Deadline::after(patience(options.places.size()));
  std::string left_out;
  for (;;) {
    const Faults faults = examine(options);
    if (ended_by_ != 0) return ended_by_;
    if (faults.empty()) return 0;
    std::vector<HostShare> well;
    for (std::size_t p = 0; p < options.places.size(); ++p) {
      const HostShare& place = options.places[p];
      const auto fault = faults.find(p);
      if (fault == faults.end()) {
        well.push_back(place);
        continue;
      }
      say(place, fault->second);
      left_out += fmt::format("{}host {}: {}", left_out.empty() ? "" : "; ", name_of(place), fault->second);
    }
    options.places = std::move(well);
    deal_out(options, "what --check leaves", left_out);
  }
}

HealthCheck::Faults HealthCheck::examine(const Options& job) {
  constexpr Duration kFurtherLosses = std::chrono::seconds(2);  // other hosts that cannot be reached say so as soon
  const Options options = doctors(job);
  EventLoop loop;
  std::string report;               // of rank 0
  std::map<int, LastLines> errors;  // by rank
  int first_failed = 0;             // says why there is no report
  Faults lost;
  Deadline end = *deadline_;
  bool killed = false;
  RankEvents events;
  events.output = [&](Source source, std::string_view bytes) {
    if (source == Source{0, Stream::Output}) report += bytes;
    if (source.second == Stream::Errors) errors[source.first].take(bytes);
  };
  events.ended = [&, any = false](int rank, const Ending& ending) mutable {
    if (!ending.ok() && !std::exchange(any, true)) first_failed = rank;
  };
  events.warned = [](const std::string&) {};  // there are no log files
  events.broken = [&](const std::string& /*host*/, const std::string& why, const std::vector<int>& ranks) {
    if (killed) return;
    if (lost.empty()) end = Deadline(std::min(Clock::now() + kFurtherLosses, deadline_->at()));
    lost.emplace(place_of(options.shares, ranks.front()), why);
  };
  Fleet fleet(loop, options, {}, config_, std::move(events));
  const EventLoop::Watch signals_come = loop.watch(signals_.descriptor(), {.read = true}, [&] {
    while (const int number = signals_.next()) {
      if (number == SIGCHLD) fleet.reap();
      if (number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT) ended_by_ = number;
    }
  });
  fleet.start();
  while (fleet.running() != 0) {
    loop.run_once(killed ? Deadline::never() : end);
    if (killed || (!end.passed() && ended_by_ == 0)) continue;
    killed = true;
    fleet.signal(SIGKILL);
  }
  if (ended_by_ != 0 || !lost.empty()) return lost;
  if (killed) {
    throw Error(Code::Timeout,
                fmt::format("--check: not all hosts have answered within {} s; `sinew-run .. sinew-info doctor` shows "
                            "how far they come",
                            std::chrono::duration<double>(patience(job.places.size())).count()));
  }
  if (report.empty()) {
    throw Error(Code::Unavailable, fmt::format("--check: the hosts cannot be examined: host {}: {}",
                                               name_of(options.shares[place_of(options.shares, first_failed)]),
                                               errors[first_failed].text()));
  }
  return judge(job.places, read_verdicts(report));
}

/// Says of each host that it is well, if all are.
HealthCheck::Faults HealthCheck::judge(const std::vector<HostShare>& places, const JobVerdict& verdict) const {
  Faults faults;
  for (const HostVerdict& host : verdict.hosts) {
    if (host.faults.empty()) continue;
    faults.emplace(place_of(places, host.first_rank), fmt::format("{}", fmt::join(host.faults, "; ")));
  }
  if (!faults.empty()) return faults;
  if (!verdict.faults.empty())
    throw Error(Code::Unavailable, fmt::format("--check: a job would fail: {}", fmt::join(verdict.faults, "; ")));
  std::vector<std::string> words(places.size(), "ok, the same machine as a host above");
  for (const HostVerdict& host : verdict.hosts) {
    const std::string warnings =
        host.warnings.empty() ? "" : fmt::format("; warnings: {}", fmt::join(host.warnings, ", "));
    words[place_of(places, host.first_rank)] = "ok" + warnings;
  }
  for (std::size_t p = 0; p < places.size(); ++p) say(places[p], words[p]);
  return {};
}

}  // namespace sinew::run
