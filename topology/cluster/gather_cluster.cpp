#include <algorithm>
#include <exception>
#include <map>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/host/cpu.hpp>
#include <sinew/core/net/socket_address.hpp>
#include <sinew/topology/cluster/gather_cluster.hpp>
#include <sinew/topology/cluster/nearest_nic.hpp>
#include <sinew/topology/cluster/rank_parts.hpp>
#include <sinew/topology/discover.hpp>
#include <sinew/topology/format/json/json.hpp>
#include <sinew/topology/format/json/json_fields.hpp>

namespace sinew {
namespace {

/// First byte of a leader's bytes: what follows is a machine, or the reason why there is none.
constexpr std::byte kMachine{'M'};
constexpr std::byte kReason{'E'};

Machine machine_of(int rank, const RankPlace& place, const Bytes& bytes) {
  if (bytes.empty()) {
    throw Error(Code::InvalidArgument,
                fmt::format("rank {} is the lowest of host '{}' and published no machine", rank, place.host), rank);
  }
  const std::string_view text = json_fields::text_of(bytes).substr(1);
  if (bytes.front() == kReason)
    throw Error(Code::System, fmt::format("rank {} cannot see its machine: {}", rank, text), rank);
  try {
    Machine machine = machine_from_json(text);
    if (machine.identity == place.host) return machine;
    throw Error(Code::InvalidArgument,
                fmt::format("it is of host '{}', but the rank said '{}'", machine.identity, place.host));
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("machine of rank {}: {}", rank, error.what()), rank);
  }
}

/// The NUMA nodes that the rank is bound to; none: it may run on all of them alike.
std::vector<std::string> nodes_of(const Machine& machine, const RankPlace& place) {
  std::vector<std::string> parts;
  bool all = true;
  for (const NumaNode& node : machine.numa_nodes) {
    const bool here = std::ranges::any_of(node.cores, [&](int core) {
      return std::ranges::find_first_of(machine.cores[static_cast<std::size_t>(core)].cpus, place.cpus) !=
             machine.cores[static_cast<std::size_t>(core)].cpus.end();
    });
    if (here) parts.push_back(fmt::format("numa:{}", node.id));
    if (!here && !node.cores.empty()) all = false;
  }
  return all && machine.numa_nodes.size() > 1 ? std::vector<std::string>{} : parts;
}

/// Gives each rank its GPU and its NIC, host by host in the order of the ranks.
void settle_devices(std::span<const RankPlace> places, Cluster& cluster) {
  std::vector<NicAssigner> assigners(cluster.hosts.begin(), cluster.hosts.end());
  std::map<std::pair<int, std::string_view>, std::vector<int>> usable;
  for (std::size_t r = 0; r < places.size(); ++r) {
    RankSpot& spot = cluster.ranks[r];
    const Machine& machine = cluster.hosts[static_cast<std::size_t>(spot.host)];
    const auto gpu = std::ranges::find(machine.gpus, places[r].gpu, &Gpu::pci);
    if (!places[r].gpu.empty() && gpu != machine.gpus.end()) spot.gpu = static_cast<int>(gpu - machine.gpus.begin());
    const auto [nics, is_new] = usable.try_emplace({spot.host, places[r].interfaces});
    if (is_new) nics->second = nics_for_ranks(machine, places[r].interfaces);
    const std::vector<std::string> parts =
        spot.gpu < 0 ? nodes_of(machine, places[r]) : std::vector{fmt::format("gpu:{}", spot.gpu)};
    auto [nic, why] = assigners[static_cast<std::size_t>(spot.host)].assign(parts, nics->second);
    spot.nic = nic;
    spot.nic_why = std::move(why);
  }
}

int usable_cores_of_host(std::span<const RankPlace> places, std::string_view host) {
  CoreCount count;
  for (const RankPlace& place : places) {
    if (place.host == host) count.add(place.cpus, place.quota_cores);
  }
  return count.cores();
}

}  // namespace

std::vector<int> host_leaders(std::span<const RankPlace> places) {
  std::set<std::string_view> seen;
  std::vector<int> leaders;
  for (std::size_t r = 0; r < places.size(); ++r) {
    if (seen.insert(places[r].host).second) leaders.push_back(static_cast<int>(r));
  }
  return leaders;
}

Cluster merge_cluster(std::span<const RankPlace> places, std::span<const Bytes> machines) {
  Cluster cluster;
  std::vector<int> usable;
  std::map<std::string_view, int> host_index;
  for (const int leader : host_leaders(places)) {
    const RankPlace& place = places[static_cast<std::size_t>(leader)];
    host_index[place.host] = static_cast<int>(cluster.hosts.size());
    cluster.hosts.push_back(machine_of(leader, place, machines[static_cast<std::size_t>(leader)]));
    usable.push_back(usable_cores_of_host(places, place.host));
  }
  for (const RankPlace& place : places) {
    const int host = host_index[place.host];
    RankSpot& spot =
        cluster.ranks.emplace_back(RankSpot{host, place.numa_node, usable[static_cast<std::size_t>(host)]});
    set_parts(cluster.hosts[static_cast<std::size_t>(host)], place.cpus, spot);
  }
  settle_devices(places, cluster);
  return cluster;
}

bool nics_share_network(const Cluster& cluster) {
  std::set<std::pair<int, int>> nics;
  for (const RankSpot& spot : cluster.ranks) nics.emplace(spot.host, spot.nic);
  const auto addresses_of = [&](std::pair<int, int> at) {
    std::vector<std::pair<SocketAddress, unsigned>> found;
    if (at.second < 0) return found;
    const Machine& host = cluster.hosts[static_cast<std::size_t>(at.first)];
    for (const NicAddress& a : host.nics[static_cast<std::size_t>(at.second)].addresses) {
      if (!a.v6) found.emplace_back(SocketAddress::parse(a.text + ":0"), static_cast<unsigned>(a.prefix));
    }
    return found;
  };
  if (nics.empty()) return false;
  for (const auto& [first, prefix] : addresses_of(*nics.begin())) {
    std::set<std::string> seen;  // an address that two have leads to one of them, as those of bridges for containers
    const bool all = std::ranges::all_of(nics, [&](std::pair<int, int> nic) {
      return std::ranges::any_of(addresses_of(nic), [&](const auto& other) {
        return other.second == prefix && other.first.shares_network(first, prefix) &&
               seen.insert(other.first.text()).second;
      });
    });
    if (all) return true;
  }
  return false;
}

Bytes machine_bytes(const Config& config) {
  Bytes bytes{kMachine};
  std::string text;
  try {
    text = to_json(discover(config), -1);
  } catch (const std::exception& error) {
    bytes.front() = kReason;
    text = error.what();
  }
  const Bytes body = json_fields::bytes_of(text);
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

Cluster gather_cluster(const Exchange& exchange, const Config& config, const std::string& gpu) {
  const std::vector<Bytes> said = exchange.all_gather(to_bytes(place_of_this_process(config, gpu)));
  std::vector<RankPlace> places;
  std::exception_ptr broken;
  try {
    for (const Bytes& bytes : said) places.push_back(rank_place_from_bytes(bytes));
  } catch (const Error&) {
    broken = std::current_exception();
  }
  const bool leads = !broken && std::ranges::binary_search(host_leaders(places), exchange.rank);
  const std::vector<Bytes> machines = exchange.all_gather(leads ? machine_bytes(config) : Bytes{});
  if (broken) std::rethrow_exception(broken);
  return merge_cluster(places, machines);
}

}  // namespace sinew
