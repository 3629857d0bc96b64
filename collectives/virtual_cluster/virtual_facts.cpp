#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/collectives/virtual_cluster/virtual_facts.hpp>
#include <sinew/core/error.hpp>

namespace sinew {

void require_virtual_options(const VirtualWorld& virtual_world, int ranks, Config& config) {
  const VirtualCluster& on = virtual_world.on;
  if (on.network.ranks() != ranks) {
    throw Error(Code::InvalidArgument, fmt::format("virtual cluster '{}' has {} ranks, and this World {}: expected as "
                                                   "many",
                                                   on.name, on.network.ranks(), ranks));
  }
  const std::vector<std::string> carriers{"inproc"};
  if (!config.transports.empty() && config.transports != carriers) {
    throw Error(Code::InvalidArgument,
                fmt::format("transports {}: expected none but inproc on a virtual cluster, whose ranks are threads",
                            fmt::join(config.transports, ", ")));
  }
  config.transports = carriers;
}

void set_virtual_place(const VirtualWorld& virtual_world, int rank, LocalFacts& mine) {
  const Network& network = virtual_world.on.network;
  const RankSpot& spot = virtual_world.cluster.ranks[static_cast<std::size_t>(rank)];
  mine.host_id = virtual_world.cluster.hosts[static_cast<std::size_t>(spot.host)].identity;
  mine.process_id = fmt::format("rank {}", rank);
  mine.usable_cores = spot.usable_cores;
  mine.nic = network.nic_of_place(network.place_of(rank));
}

void set_virtual_rates(const VirtualWorld& virtual_world, Facts& facts) {
  const Network& network = virtual_world.on.network;
  facts.copy_bytes_per_s = network.copy_bytes_per_s;
  facts.reduce_bytes_per_s = network.reduce_bytes_per_s;
  for (auto& [where, row] : facts.links) {
    for (Facts::Link& link : row) link.known = true;
  }
  facts.source = fmt::format("virtual cluster: {}", virtual_world.on.name);
}

}  // namespace sinew
