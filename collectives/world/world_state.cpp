#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/collectives/algorithms/algorithm.hpp>
#include <sinew/collectives/control/clock_offset.hpp>
#include <sinew/collectives/messages/counting_endpoint.hpp>
#include <sinew/collectives/selection/costs/cost_cache.hpp>
#include <sinew/collectives/selection/gather_facts.hpp>
#include <sinew/collectives/virtual_cluster/virtual_fabric.hpp>
#include <sinew/collectives/virtual_cluster/virtual_facts.hpp>
#include <sinew/collectives/world/communicator_state.hpp>
#include <sinew/collectives/world/world_state.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/host/cpu.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/net/tls_context.hpp>
#include <sinew/topology/cluster/gather_cluster.hpp>
#include <sinew/topology/cluster/nearest_nic.hpp>
#include <sinew/topology/cluster/rank_parts.hpp>
#include <sinew/topology/devices/links_of_gpu.hpp>
#include <sinew/topology/discover/host_identity.hpp>
#include <sinew/transports/registry.hpp>

namespace sinew {
namespace {

/// Communicator ids are 16 bits in pairs.
constexpr std::size_t kIdPairs = 1 << 15;

bool wanted(const Config& config, std::string_view name) {
  return config.transports.empty() || std::ranges::find(config.transports, name) != config.transports.end();
}

/// Has the user said what this transport is to use? Then he expects it.
bool is_set_up(const Config& config, const std::string& transport) {
  if (transport == "nccl") return !config.nccl_library.empty();
  if (transport == "ofi") return !config.ofi_provider.empty();
  return transport == "tcp" && !config.interface.empty();
}

void require_known(const Config& config) {
  for (const std::string& name : config.transports) {
    const std::vector<std::string> known = module_names(config);
    if (std::ranges::find(known, name) != known.end()) continue;
    throw Error(Code::InvalidArgument,
                fmt::format("transports '{}' (SINEW_TRANSPORTS): no transport is called '{}'; there are {}",
                            fmt::join(config.transports, ","), name, fmt::join(known, ", ")));
  }
}

/// Of the rule's collective, or of any where it is for all.
[[noreturn]] void reject_algorithm(const std::string& text, const Rule& rule,
                                   const std::vector<std::string>& transports) {
  std::set<std::string_view> names{kHierarchical, kDeviceHierarchy};
  for (const Algorithm& a : all_algorithms()) {
    if (rule.collective == "*" || rule.collective == name_of(a.collective)) names.insert(a.name);
  }
  const std::string problem = rule.collective == "*"
                                  ? fmt::format("no algorithm is called '{}'; there are", rule.algorithm)
                                  : fmt::format("{} has no algorithm '{}'; it has", rule.collective, rule.algorithm);
  throw Error(Code::InvalidArgument, fmt::format("rule '{}' (SINEW_TUNE): {} {}, and the transports' own: {}", text,
                                                 problem, fmt::join(names, ", "), fmt::join(transports, ", ")));
}

/// A rule with a name that nobody has would leave nothing for the calls that it is for.
void require_known_rule(const std::string& text, const std::vector<std::string>& transports) {
  const Rule rule = Rule::parse(text);
  const auto known = [&](const std::string& name) { return std::ranges::find(transports, name) != transports.end(); };
  const bool is_algorithm = std::ranges::any_of(all_algorithms(), [&](const Algorithm& a) {
    return a.name == rule.algorithm && (rule.collective == "*" || rule.collective == name_of(a.collective));
  });
  const bool composes = rule.algorithm == kHierarchical || rule.algorithm == kDeviceHierarchy;
  if (rule.algorithm != "*" && !composes && !known(rule.algorithm) && !is_algorithm) {
    reject_algorithm(text, rule, transports);
  }
  std::istringstream parts(rule.transport);
  for (std::string name; std::getline(parts, name, '+');) {
    if (name == "*" || known(name)) continue;
    throw Error(Code::InvalidArgument, fmt::format("rule '{}' (SINEW_TUNE): no transport is called '{}'; there are {}",
                                                   text, name, fmt::join(transports, ", ")));
  }
}

void require_right_options(WorldOptions& options, int size) {
  static_cast<void>(TlsContext::open(options.config.tls));  // what is wrong with it is no transport's to say
  if (options.virtual_world) require_virtual_options(*options.virtual_world, size, options.config);
  require_known(options.config);
  for (const std::string& rule : options.config.tune) require_known_rule(rule, module_names(options.config));
}

}  // namespace

WorldState::WorldState(const Exchange& exchange, WorldOptions given)
    : rank(exchange.rank),
      size(exchange.size),
      options(std::move(given)),
      generation(options.generation),
      free_ids(kIdPairs / 64, ~std::uint64_t{0}) {
  free_ids.back() &= ~(std::uint64_t{1} << 63);  // kBootstrapId
  if (options.count_sent) sent_bytes.resize(static_cast<std::size_t>(size));
  or_give_up(exchange, [this] { require_right_options(options, size); });
  host_id = host_identity(options.config);
  host = std::make_unique<HostPeers>(exchange, host_id, Deadline::after(options.config.timeout));
  or_give_up(exchange, [this] { choose_device(); });
  find_cluster(exchange);
  or_give_up(exchange, [this] { open_fabrics(); });

  LocalFacts mine{host_id, fmt::format("{}", ::getpid()), host->usable_cores(), {}, device, no_device};
  mine.measures = options.measures;
  mine.measures_again = options.measures && !any_has_costs().load(std::memory_order_relaxed);
  if (cluster) mine.nic = std::max(cluster->ranks[static_cast<std::size_t>(rank)].nic, 0);
  mine.links = links_of_device();
  if (options.virtual_world) set_virtual_place(*options.virtual_world, rank, mine);
  for (const TransportStatus& s : statuses) {
    if (!wanted(options.config, s.name)) continue;  // nobody asks why what he left out is not there
    OpenedTransport& t =
        mine.transports.emplace_back(OpenedTransport{s.name, nullptr, s.ok ? "" : s.reason, s.offload, {}});
    t.rail = rail(s.name);
    if (s.ok) t.by_nic = fabric(s.name).nic_choice().is_nearest;
  }
  GatheredFacts gathered = gather_facts(exchange, mine, options.config);
  facts = std::move(gathered.facts);
  addresses = std::move(gathered.addresses);
  warn_of_shared_device();
  endpoints_.resize(static_cast<std::size_t>(size));
  for (auto& row : endpoints_) row.resize(facts.transports.size());

  const auto ranks_here = std::ssize(host->ranks());
  engine =
      std::make_unique<Engine>(ranks_here <= host->usable_cores(), quota_cores() / static_cast<double>(ranks_here));
  calls.reset(new CallSlab(*engine, options.config.timeout, options.threads == Threads::Multiple));
  for (OpenFabric& f : fabrics) {
    for (const auto& t : f.fabric->transports()) engine->add(*t);
  }
  engine->add(executor);
  open_transfers();
  open_control(exchange);
}

void WorldState::find_cluster(const Exchange& exchange) {
  if (options.virtual_world) {
    cluster = std::shared_ptr<const Cluster>(options.virtual_world, &options.virtual_world->cluster);
    return;
  }
  try {
    cluster = std::make_shared<const Cluster>(gather_cluster(exchange, options.config, bus_id_of_device()));
  } catch (const Error& e) {  // the same on all ranks, and no reason not to communicate
    no_cluster = e.what();
  }
}

std::string WorldState::bus_id_of_device() const {
  if (device_runtime == nullptr || device < 0) return {};
  try {
    return device_runtime->traits(device).bus_id;
  } catch (const Error& e) {  // then the NIC is the nearest to its cores
    log::info("device {}: {}", device, e.what());
    return {};
  }
}

DeviceLinks WorldState::links_of_device() const {
  if (device < 0) return {};
  DeviceLinks links;
  if (cluster) {
    const RankSpot& spot = cluster->ranks[static_cast<std::size_t>(rank)];
    const Machine& here = cluster->hosts[static_cast<std::size_t>(spot.host)];
    if (spot.gpu >= 0) links = links_of_gpu(here, spot.gpu, nics_for_ranks(here, options.config.interface));
  }
  if (links.compute_capability > 0 || device_runtime == nullptr) return links;
  try {
    links.compute_capability = device_runtime->traits(device).compute_capability;
  } catch (const Error& e) {
    log::info("device {}: {}", device, e.what());
  }
  return links;
}

NicName WorldState::nearest_nic() const {
  if (!cluster) return {};
  const RankSpot& spot = cluster->ranks[static_cast<std::size_t>(rank)];
  if (spot.nic < 0) return {};
  const Nic& nic = cluster->hosts[static_cast<std::size_t>(spot.host)].nics[static_cast<std::size_t>(spot.nic)];
  return {nic.name, nic.rdma.device, nic.pci, spot.nic_why, nics_share_network(*cluster)};
}

void WorldState::open_control(const Exchange& exchange) {
  control = std::make_unique<ControlPlane>(exchange,
                                           ControlSetup{.generation = generation,
                                                        .host = *host,
                                                        .host_id = host_id,
                                                        .secret = options.secret,
                                                        .config = options.config},
                                           *calls);
  control->on_lost([this](int lost) { close_endpoints(lost); });
  engine->add(*control);
  engine->set_watch([this](Clock::time_point now) { control->watch(now); });
  open_timer(exchange);
  if (!options.virtual_world) metrics = WorldMetrics::make(options.config, control->service());
  if (!options.virtual_world)
    watches = std::make_unique<CallWatches>(facts, device_runtime, options.config,
                                            MachineUse(host->usable_cores(), options.config.tls.wanted), rank);
  calls->set_judge(
      {.hold = [this](PendingCall& call) { return control->hold(call); },
       .explain =
           [this](const PendingCall& call) {
             const auto held = hold();
             return explain(call);
           },
       .at_end = [this](PendingCall& call) { call_ended(call); },
       .observes_all = timer != nullptr || (watches && watches->observes_all()),
       .name_site = [this](PendingCall& call, const std::string& text) { control->name_site(call, text); }});
}

/// Ranks without a device take part, too: they exchange messages with ranks that have one.
void WorldState::open_transfers() {
  const bool any = std::ranges::any_of(facts.ranks, [](const Facts::Rank& r) { return r.device >= 0; });
  if (!any || options.virtual_world) return;
  std::unique_ptr<PeerMemory> path;
  for (OpenFabric& f : fabrics) {
    if (!path && device_runtime != nullptr) path = f.fabric->make_peer_memory();
  }
  const auto connect = [this](int world_rank, int transport) -> Endpoint& {
    return endpoint(world_rank, facts.transports[static_cast<std::size_t>(transport)]);
  };
  transfers = std::make_unique<Transfers>(device_runtime, device, std::move(path), connect);
  engine->add(*transfers);
}

std::string WorldState::explain(const PendingCall& call) {
  std::string text = control->explain(call);
  if (!transfers || !is_message(call)) return text;
  const std::string transfer = transfers->describe(call.owner, call.peer);
  if (transfer.empty()) return text;
  return text.empty() ? transfer : text + "; " + transfer;
}

std::atomic<bool>& WorldState::any_has_costs() noexcept {
  static std::atomic<bool> any{false};
  return any;
}

void WorldState::call_ended(PendingCall& call) {
  if (timer) timer->ended(call);
  if (watches) watches->ended(call);
}

void WorldState::open_timer(const Exchange& exchange) {
  const ClockDifference clock = compare_clocks(exchange, control->service().peers());
  const Config& config = options.config;
  if (config.trace_dir.empty() && !config.time_calls) return;
  or_give_up(exchange, [&] {
    timer = std::make_unique<CallTimer>(config.trace_dir.empty() ? nullptr : open_log(clock), control->page(), clock);
  });
}

std::unique_ptr<CallLog> WorldState::open_log(const ClockDifference& clock) const {
  const std::vector<ControlPeer>& peers = control->service().peers();
  const LogOwner owner{.rank = rank,
                       .ranks = size,
                       .generation = generation,
                       .job = peers.front().token,
                       .ahead_ns = clock.ahead_ns,
                       .ahead_error_ns = clock.error_ns,
                       .host = peers[static_cast<std::size_t>(rank)].host_name,
                       .clock = clock_identity()};
  try {
    return std::make_unique<CallLog>(
        fmt::format("{}/sinew-{}-rank-{}.calls", options.config.trace_dir, generation, rank), owner);
  } catch (const Error& e) {
    if (generation == 0) throw;  // of a job that has begun the survivors go on
    log::warning("{}: this rank goes on without", e.what());
    return nullptr;
  }
}

void WorldState::close_endpoints(int world_rank) {
  for (const auto& endpoint : endpoints_[static_cast<std::size_t>(world_rank)]) {
    if (!endpoint) continue;
    closing.push_back(std::make_unique<Completion>([](Completion&) noexcept {}));
    endpoint->close(*closing.back());
  }
}

void WorldState::end_endpoints(int world_rank) {
  for (auto& endpoint : endpoints_[static_cast<std::size_t>(world_rank)]) endpoint.reset();
}

WorldState::~WorldState() {
  if (calls && calls->shared() != nullptr) calls->shared()->stop_thread();
  if (watches) watches->keep();
  metrics.reset();
  if (control) {
    engine->remove(*control);
    control.reset();
  }
  endpoints_.clear();
  if (!engine) return;
  for (const auto& communicator : left_behind) communicator->release();
  engine->remove(executor);
  if (transfers) engine->remove(*transfers);
  if (self_link_) engine->remove(*self_link_);
  for (OpenFabric& f : fabrics) {
    for (const auto& t : f.fabric->transports()) engine->remove(*t);
  }
}

void WorldState::choose_device() {
  if (options.virtual_world) {
    no_device = "accelerators of a virtual cluster hold no memory";
    if (options.virtual_world->plans_devices)
      device = options.virtual_world->cluster.ranks[static_cast<std::size_t>(rank)].gpu;
    return;
  }
  device_runtime = options.device_runtime;
  if (device_runtime == nullptr) {
    try {
      own_device_runtime = make_device_runtime();
      device_runtime = own_device_runtime.get();
    } catch (const Error& e) {
      no_device = e.what();
      return;
    }
  }
  const int count = device_runtime->device_count();
  if (count == 0) {
    no_device = "its runtime sees none";
    device_runtime = nullptr;
  } else if (options.device < 0) {
    const auto here = host->ranks();
    device = static_cast<int>(std::ranges::find(here, rank) - here.begin()) % count;
  } else if (options.device < count) {
    device = options.device;
  } else {
    throw Error(Code::InvalidArgument,
                fmt::format("rank {}: device {} was asked for, but there are {}", rank, options.device, count));
  }
}

void WorldState::warn_of_shared_device() const {
  if (device < 0) return;
  const int my_host = facts.ranks[static_cast<std::size_t>(rank)].host;
  for (std::size_t r = 0; r < facts.ranks.size(); ++r) {
    const Facts::Rank& other = facts.ranks[r];
    if (static_cast<int>(r) == rank || other.host != my_host || other.device != device) continue;
    log::warning("rank {} shares device {} with rank {}: they take turns", rank, device, r);
    return;
  }
}

void WorldState::open_fabrics() {
  const NicName nic = nearest_nic();
  for (const std::string& name : module_names(options.config)) {
    TransportStatus status{.name = name, .left_alone = left_alone(name, options.config)};
    if (!wanted(options.config, name)) {
      status.reason = "left out by SINEW_TRANSPORTS or the caller";
    } else if (options.config.transports.empty() && !status.left_alone.empty()) {
      status.reason = "used only when SINEW_TRANSPORTS or the caller names it: " + status.left_alone;
    } else {
      open_fabric(*find_module(name, options.config), nic, status);
    }
    statuses.push_back(std::move(status));
  }
}

void WorldState::open_fabric(Module& module, const NicName& nic, TransportStatus& status) {
  try {
    if (const Availability can = module.available(); !can.ok) throw Error(Code::Unavailable, can.reason);
    auto fabric = module.open(
        {rank, size, tag_generation(), *host, options.secret, host_id, options.config, device_runtime, device, nic});
    if (!fabric) throw Error(Code::System, "its open() returned no fabric");
    if (options.virtual_world) {
      fabric = std::make_unique<VirtualFabric>(std::move(fabric), options.virtual_world->on.network, rank);
    }
    const Availability offload = fabric->has_offload();
    status.no_device = fabric->takes_device_memory().reason;
    status.offload = offload.ok ? "" : offload.reason;
    status.reason = fabric->nic_choice().text;
    status.ok = true;
    fabrics.push_back({status.name, std::move(fabric)});
    if (options.config.tls.wanted && !is_covered_by_tls(status.name) && asks_for(status.name)) {
      log::warning("transport {} is used as asked for, and does not encrypt what it sends, for all SINEW_TLS=1",
                   status.name);
    }
  } catch (const std::exception& e) {
    leave_out(status, e.what());
  } catch (...) {  // of a module from elsewhere
    leave_out(status, "its open() threw something that is no std::exception");
  }
}

/// Is this the rank of its host that speaks of a transport that the user has named? Who names all wants what there is.
bool WorldState::asks_for(const std::string& transport) const {
  const std::vector<std::string>& wanted_here = options.config.transports;
  const bool named = std::ranges::find(wanted_here, transport) != wanted_here.end();
  const bool all_are = wanted_here.size() >= module_names(options.config).size();
  return named && !all_are && host->ranks().front() == rank;
}

void WorldState::leave_out(TransportStatus& status, std::string reason) const {
  const std::string speaker = status.name + ": ";
  if (reason.starts_with(speaker)) reason.erase(0, speaker.size());
  status.reason = std::move(reason);
  if (asks_for(status.name) || (is_set_up(options.config, status.name) && host->ranks().front() == rank)) {
    log::warning("transport {}, which was asked for, is left out: {}", status.name, status.reason);
  } else {
    log::info("transport {}: {}", status.name, status.reason);
  }
}

Fabric& WorldState::fabric(const std::string& transport) {
  return *std::ranges::find(fabrics, transport, &OpenFabric::name)->fabric;
}

Transport* WorldState::rail(const std::string& transport) noexcept {
  for (OpenFabric& f : fabrics) {
    if (f.name == transport && !f.fabric->transports().empty()) return f.fabric->transports().front().get();
  }
  return nullptr;
}

void WorldState::reject_fork() const {
  throw Error(Code::InvalidArgument,
              fmt::format("process {} is a fork of the one that made this World of rank {}: make one of its own",
                          ::getpid(), rank));
}

Status WorldState::abort_status(const std::string& beginning, const std::string& reason) const {
  Status other = control->abort_that_says(reason);
  return other.ok() ? Status(Code::Aborted, fmt::format("{}: {}", beginning, reason), rank) : other;
}

void WorldState::abort(const std::string& beginning, const std::string& reason, Code code) {
  locked([&] {
    const Status end = abort_status(beginning, reason);
    control->end_world(Status(code, std::string(end.message()), end.rank()),
                       code == Code::PeerLost ? kAboutToBeKnownMs : 0);
  });
}

std::vector<int> WorldState::numa_nodes_of(std::span<const int> world_ranks) const {
  std::vector<int> nodes;
  if (!no_cluster.empty()) return nodes;
  for (const int r : world_ranks) nodes.push_back(cluster->ranks[static_cast<std::size_t>(r)].numa_node);
  return nodes;
}

std::vector<PartsOfRanks> WorldState::parts_of(std::span<const int> world_ranks) const {
  if (!no_cluster.empty()) return {};
  return parts_of_ranks(*cluster, world_ranks);
}

void WorldState::give_id_back(std::uint16_t id) noexcept {
  const auto held = hold();
  free_ids[id / 128] |= std::uint64_t{1} << (id / 2 % 64);
}

SelfLink& WorldState::self_link() {
  if (!self_link_) {
    self_link_ = std::make_unique<SelfLink>(tag_generation());
    engine->add(*self_link_);
  }
  return *self_link_;
}

Endpoint& WorldState::endpoint(int world_rank, const std::string& transport) {
  const auto t = static_cast<std::size_t>(std::ranges::find(facts.transports, transport) - facts.transports.begin());
  const auto r = static_cast<std::size_t>(world_rank);
  if (t == facts.transports.size()) throw Error(Code::Unavailable, fmt::format("no transport '{}' here", transport));
  auto& slot = endpoints_[r][t];
  if (slot) return *slot;
  slot = rail(transport)->connect(addresses[r][t]);
  if (!sent_bytes.empty()) slot = std::make_unique<CountingEndpoint>(std::move(slot), sent_bytes[r]);
  return *slot;
}

}  // namespace sinew
