#include "fleet.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/launch/host_relay.hpp>
#include <sinew/collectives/launch/launch.hpp>
#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/reachable_addresses.hpp>
#include <sinew/core/net/secret.hpp>
#include <sinew/core/store/store_client.hpp>
#include <sinew/core/system/host_name.hpp>

#include "remote_ranks.hpp"

extern char** environ;

namespace sinew::run {
namespace {

/// A TCP port that was free a moment ago: nothing of ours listens there, but programs may want MASTER_PORT for
/// themselves.
std::uint16_t free_port(const Config& config) { return listen_everywhere(0, config.ports).address.port(); }

/// The part of our environment that ranks on other hosts get.
Variables travelling_environment() {
  Variables all;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string entry(*e);
    const std::size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    const bool ours = name.starts_with("SINEW_") && name != "SINEW_RSH";
    if (ours || name == "PATH" || name == "LD_LIBRARY_PATH") all.emplace_back(name, entry.substr(equals + 1));
  }
  return all;
}

/// The tree over which this job's ranks start. The value that --env gives takes the place of our own.
StartTree tree_of(const Variables& given) {
  return start_tree([&given, ours = process_environment()](const char* name) {
    const auto value = value_of(given, name);
    return value ? value : ours(name);
  });
}

std::string working_folder() {
  const std::unique_ptr<char, decltype(&std::free)> path(::getcwd(nullptr, 0), &std::free);
  return path ? path.get() : "/";
}

}  // namespace

Fleet::Fleet(EventLoop& loop, const Options& options, LogOptions logs, const Config& config, RankEvents events)
    : loop_(loop),
      options_(options),
      logs_(std::move(logs)),
      config_(config),
      events_(std::move(events)),
      secret_(random_secret()),
      store_(loop_, {.secret = secret_,
                     .ranks = options.elastic ? 0 : options.ranks,
                     .host = StoreHost::Launcher,
                     .elastic = options.elastic,
                     .notice = [this](const std::string& missing) { events_.warned("the ranks wait: " + missing); },
                     .fan_out = tree_of(options.environment).fan_out}),
      master_port_(free_port(config)),
      name_(fmt::format("{:016x}", random_id())) {}

void Fleet::start() {
  store_.listen(listen_on(bootstrap_address(master_port_, name_)));
  bool elsewhere = false;
  for (const HostShare& share : options_.shares) elsewhere = elsewhere || !share.host.empty();
  if (elsewhere) {
    port_.emplace(loop_, listen_everywhere(0, config_.ports), TlsContext::open(config_.tls));
    serves_store_ = port_->serve({.service = kStoreService}, secret_,
                                 [this](const AuthClaim&, Socket client) { store_.take(std::move(client)); });
    store_.ask_for_refused([this] { return port_->refused(); });
    store_addresses_ = format_addresses(reachable_addresses(config_.interface, port_->number()));
  }
  // A rank is in a process group of its own: reading the terminal would stop it.
  const int input = ::isatty(0) ? -1 : 0;
  int first = 0;
  for (const HostShare& share : options_.shares) {
    start_part({&share, first, 0, share.ranks, input}, logs_);
    first += share.ranks;
  }
  expect_all();
}

Fleet::Part Fleet::part_of(int number) const {
  int first = 0;
  auto share = options_.shares.begin();
  for (; number >= first + share->ranks; ++share) first += share->ranks;
  return {&*share, number, number - first, 1, -1};
}

void Fleet::start_again(int number, int again) {
  std::erase_if(ranks_, [](const auto& r) { return r->running() == 0; });
  LogOptions logs = logs_;
  if (!logs.folder.empty()) logs.folder += fmt::format("/again_{}", again);
  start_part(part_of(number), std::move(logs));
}

void Fleet::start_part(const Part& part, LogOptions logs) {
  const HostShare& share = *part.share;
  RankEvents events = events_;
  events.ended = [this](int rank, const Ending& ending) {
    // The members of an elastic job have other numbers as ranks. The store sees their connections end.
    if (!options_.elastic) store_.lose(rank, fmt::format("rank {} {}", rank, ending.text()));
    expect_all();
    events_.ended(rank, ending);
  };
  LocalPlan plan;
  plan.command = options_.command;
  plan.first = part.first;
  plan.count = part.count;
  plan.ranks = options_.ranks;
  plan.local_first = part.first_local;
  plan.local_ranks = share.ranks;
  plan.elastic = options_.elastic.has_value();
  plan.input = part.input;
  plan.logs = std::move(logs);
  if (!share.host.empty()) plan.environment = travelling_environment();
  plan.environment.emplace_back("SINEW_ALONE", "0");  // the value that --env gives comes later and takes its place
  plan.environment.insert(plan.environment.end(), options_.environment.begin(), options_.environment.end());
  plan.environment.insert(
      plan.environment.end(),
      {{"MASTER_ADDR", master_address()}, {"MASTER_PORT", fmt::format("{}", master_port_)}, {"SINEW_JOB", name_}});
  if (options_.elastic)
    plan.environment.emplace_back("SINEW_ELASTIC",
                                  fmt::format("{}:{}", options_.elastic->least, options_.elastic->most));
  if (share.host.empty()) return start_here(std::move(plan), std::move(events));
  plan.folder = working_folder();
  start_agent(std::move(plan), std::move(events),
              options_.by_srun ? agent_by_srun(share.host) : agent_by_rsh(config_.rsh, share.host), share.host);
}

/// Starts ranks of this host. Where this process may not open enough descriptors to watch all of them, it watches the
/// first, and agents that it starts on this host watch the others.
void Fleet::start_here(LocalPlan plan, RankEvents events) {
  const int most = ranks_for_one_process(plan, options_.ranks);
  if (most == 0)
    throw Error(Code::InvalidArgument,
                fmt::format("{} ranks: sinew-run needs a descriptor for each, and too few are allowed; expected ulimit "
                            "-n {} or more",
                            options_.ranks, options_.ranks + 128));
  LocalPlan rest = plan;
  plan.count = std::min(plan.count, most);
  auto local = std::make_unique<LocalRanks>(loop_, events);
  LocalRanks& started = *local;
  ranks_.push_back(std::move(local));
  started.start(plan);
  rest.input = -1;
  while ((rest.count -= plan.count) > 0) {
    rest.first += plan.count;
    rest.local_first += plan.count;
    plan = rest;
    plan.count = std::min(rest.count, std::max(ranks_for_one_process(rest, 0), 1));
    start_agent(plan, events, agent_here(), host_name());
  }
}

void Fleet::start_agent(LocalPlan plan, RankEvents events, AgentCommand command, const std::string& host) {
  const AgentTask task{std::move(plan), master_port_, name_, store_addresses_, secret_};
  ranks_.push_back(
      std::make_unique<RemoteRanks>(loop_, std::move(events), std::move(command), host, task, config_.timeout));
}

/// The address of the host of rank 0, for programs that serve something there.
std::string Fleet::master_address() const {
  if (!options_.shares.front().host.empty()) return options_.shares.front().host;
  if (options_.shares.size() == 1) return "127.0.0.1";
  const auto own = reachable_addresses(config_.interface, 0);
  return own.empty() ? "127.0.0.1" : own.front().host_text();
}

int Fleet::running() const noexcept {
  int count = 0;
  for (const auto& r : ranks_) count += r->running();
  return count;
}

void Fleet::signal(int number) {
  for (const auto& r : ranks_) r->signal(number);
}

void Fleet::hold_all(Stream stream, bool on) {
  for (const auto& r : ranks_) r->hold_all(stream, on);
}

void Fleet::hold_one(Source source, bool on) {
  for (const auto& r : ranks_) r->hold_one(source, on);
}

void Fleet::reap() {
  for (const auto& r : ranks_) r->reap();
}

std::string Fleet::host_of(int rank) const {
  int first = 0;
  for (const HostShare& share : options_.shares) {
    if (rank < first + share.ranks) return share.host.empty() ? host_name() : share.host;
    first += share.ranks;
  }
  return "";
}

}  // namespace sinew::run
