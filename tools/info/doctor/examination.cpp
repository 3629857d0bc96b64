#include "examination.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/core/host/cpu.hpp>
#include <sinew/tools/info/doctor/interfaces/interface_checks.hpp>
#include <sinew/tools/info/doctor/links/link_checks.hpp>
#include <sinew/tools/info/doctor/links/link_server.hpp>
#include <sinew/tools/info/doctor/local/local_checks.hpp>
#include <sinew/tools/info/doctor/records/agreement.hpp>
#include <sinew/tools/info/doctor/records/clocks.hpp>
#include <sinew/tools/info/doctor/records/host_record.hpp>
#include <sinew/tools/info/doctor/records/host_report.hpp>
#include <sinew/tools/info/doctor/records/rank_record.hpp>
#include <sinew/tools/info/doctor/trial/trial.hpp>
#include <sinew/topology/cluster/gather_cluster.hpp>

namespace sinew::doctor {
namespace {

/// Who runs where, equal on all ranks.
struct Job {
  std::vector<RankRecord> ranks;
  std::vector<int> leaders;        ///< by host, its lowest rank
  std::vector<std::string> hosts;  ///< their names, each another

  const std::string& host_id(int rank) const { return ranks[static_cast<std::size_t>(rank)].place.host; }
  /// -1: the rank is not the lowest of its host.
  int led_by(int rank) const {
    const auto found = std::ranges::find(leaders, rank);
    return found == leaders.end() ? -1 : static_cast<int>(found - leaders.begin());
  }
  int leader_of(int rank) const {
    return *std::ranges::find(leaders, host_id(rank), [this](int leader) { return host_id(leader); });
  }
};

Job job_of(std::vector<RankRecord> ranks) {
  Job job{std::move(ranks), {}, {}};
  std::vector<RankPlace> places;
  for (const RankRecord& r : job.ranks) places.push_back(r.place);
  job.leaders = host_leaders(places);
  for (const int leader : job.leaders) {
    const std::string& name = job.ranks[static_cast<std::size_t>(leader)].host_name;
    const bool taken = std::ranges::find(job.hosts, name) != job.hosts.end();
    job.hosts.push_back(taken ? fmt::format("{} (of rank {})", name, leader) : name);
  }
  return job;
}

JobShape shape_of(const Job& job, int host, int networks, std::optional<std::uint64_t> rank_bytes) {
  const std::string& id = job.host_id(job.leaders[static_cast<std::size_t>(host)]);
  CoreCount cores;
  JobShape shape{.ranks = static_cast<int>(job.ranks.size()),
                 .ranks_here = 0,
                 .hosts = static_cast<int>(job.hosts.size()),
                 .networks = networks,
                 .rank_bytes = rank_bytes};
  for (const RankRecord& r : job.ranks) {
    if (r.place.host != id) continue;
    ++shape.ranks_here;
    cores.add(r.place.cpus, 0);
  }
  shape.cores = cores.cores();
  return shape;
}

/// A leader reads the next rank of its host. nullopt: there is none.
std::optional<std::string> try_direct_read(const Job& job, int leader) {
  for (int rank = leader + 1; rank < static_cast<int>(job.ranks.size()); ++rank) {
    if (job.host_id(rank) == job.host_id(leader)) return try_to_read(job.ranks[static_cast<std::size_t>(rank)].memory);
  }
  return std::nullopt;
}

/// What the leaders gave to a round, by host.
template <class Decode>
auto of_leaders(const Job& job, const std::vector<Bytes>& everybody, Decode decode) {
  std::vector<decltype(decode(everybody.front()))> all;
  for (const int leader : job.leaders) all.push_back(decode(everybody[static_cast<std::size_t>(leader)]));
  return all;
}

/// The server of a leader (null: there is none), and its host's record, with where it listens.
std::pair<std::unique_ptr<LinkServer>, HostRecord> open_host(const Launch& launch, const Config& config) {
  HostRecord record = record_of_this_host(config);
  try {
    auto server = std::make_unique<LinkServer>(launch.secret, config.ports);
    record.port = server->port();
    record.claim = server->claim();
    return {std::move(server), std::move(record)};
  } catch (const std::exception& e) {  // an Error, or no thread is to be had
    record.findings.push_back({Severity::Fails, "link", e.what(), "free ports, or another range in SINEW_PORTS"});
    return {nullptr, std::move(record)};
  }
}

void judge(const Job& job, std::span<const HostRecord> records, std::span<const HostReport> reports,
           Diagnosis& diagnosis) {
  std::vector<Finding>& found = diagnosis.findings;
  const auto add = [&found](std::vector<Finding> more) { std::ranges::move(more, std::back_inserter(found)); };
  std::vector<std::vector<HostAddress>> addresses;
  std::vector<std::vector<ClockReading>> clocks;
  for (std::size_t h = 0; h < records.size(); ++h) {
    addresses.push_back(records[h].addresses);
    clocks.push_back(reports[h].clocks);
    for (const auto* findings : {&records[h].findings, &reports[h].findings}) {
      for (Finding f : *findings) {
        f.hosts = {job.hosts[h]};
        found.push_back(std::move(f));
      }
    }
  }
  add(check_settings(job.ranks));
  add(check_modules(records, job.hosts));
  add(check_clocks(clocks, job.hosts));
  add(check_interfaces(addresses, job.hosts));
  add(job.hosts.size() > 1 ? check_links(job.hosts, diagnosis.links) : check_own_links(job.hosts[0], diagnosis.links));
}

/// What no check foresaw: the job's own World, which one of its variables may refuse.
void judge_trial(const Launch& launch, const Config& config, const Job& job, std::vector<Finding>& found) {
  const std::vector<TrialFault> faults = try_world(launch, config);
  if (faults.empty()) {
    found.push_back({Severity::Fine, "world", "the ranks meet and pass a barrier, with the variables that are set"});
  }
  for (const TrialFault& fault : faults) {
    if (fault.rank == kAllRanks) {
      found.push_back({Severity::Fails, "world", fmt::format("the ranks form one, and refuse calls: {}", fault.why),
                       "other rules in SINEW_TUNE; without it, `sinew-info plan` shows what can run such a call"});
      continue;
    }
    const int leader = job.leader_of(fault.rank);
    found.push_back({Severity::Fails,
                     "world",
                     fmt::format("the ranks cannot form one: {}", fault.why),
                     "mend what it names; `sinew-info config` explains every SINEW_ variable",
                     {job.hosts[static_cast<std::size_t>(job.led_by(leader))]}});
  }
}

/// What fails already would fail here again, and take a timeout to do so.
Finding untried_world(std::span<const Finding> findings) {
  std::vector<std::string_view> failing;
  for (const Finding& f : findings) {
    if (f.severity == Severity::Fails && std::ranges::find(failing, f.what) == failing.end()) failing.push_back(f.what);
  }
  return {Severity::Fine, "world", fmt::format("not tried, as these fail: {}", fmt::join(failing, ", "))};
}

}  // namespace

Diagnosis examine(const Launch& launch, const Config& config, std::optional<std::uint64_t> rank_bytes,
                  const ShowRound& show) {
  const Exchange& exchange = launch.exchange;
  std::vector<RankRecord> ranks;
  for (const Bytes& bytes : exchange.all_gather(to_bytes(record_of_this_rank(config)))) {
    ranks.push_back(rank_record_from(bytes));
  }
  Diagnosis diagnosis{
      .ranks = exchange.size, .hosts = {}, .first_ranks = {}, .findings = check_versions(ranks), .links = {}};
  if (would_fail(diagnosis.findings)) {
    diagnosis.findings.push_back(untried_world(diagnosis.findings));
    return diagnosis;
  }
  const Job job = job_of(std::move(ranks));
  diagnosis.hosts = job.hosts;
  diagnosis.first_ranks = job.leaders;

  const int host = job.led_by(exchange.rank);
  std::unique_ptr<LinkServer> server;
  Bytes mine;
  if (host >= 0) {
    auto [opened, record] = open_host(launch, config);
    server = std::move(opened);
    mine = to_bytes(record);
  }
  const auto records = of_leaders(job, exchange.all_gather(mine), host_record_from);

  HostReport report;
  report.clocks = read_clocks(exchange, realtime_now);
  diagnosis.links = survey_links(launch, host, records, show);
  if (host >= 0) {
    std::vector<std::vector<HostAddress>> others;
    for (std::size_t h = 0; h < records.size(); ++h) {
      if (static_cast<int>(h) != host) others.push_back(records[h].addresses);
    }
    const int networks = shared_networks(records[static_cast<std::size_t>(host)].addresses, others);
    report.findings = check_host(read_host_limits("/"), shape_of(job, host, networks, rank_bytes),
                                 try_direct_read(job, exchange.rank));
  }
  const auto reports = of_leaders(job, exchange.all_gather(host < 0 ? Bytes{} : to_bytes(report)), host_report_from);
  judge(job, records, reports, diagnosis);
  server.reset();
  if (would_fail(diagnosis.findings)) {
    diagnosis.findings.push_back(untried_world(diagnosis.findings));
  } else {
    judge_trial(launch, config, job, diagnosis.findings);
  }
  diagnosis.findings = merged(diagnosis.findings);
  return diagnosis;
}

}  // namespace sinew::doctor
