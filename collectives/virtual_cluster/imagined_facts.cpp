#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/collectives/virtual_cluster/imagined_facts.hpp>
#include <sinew/core/error.hpp>

namespace sinew {

void require_imagined(const ImaginedWorld& imagined, int ranks, Config& config) {
  const ImaginedCluster& on = imagined.on;
  if (on.network.ranks() != ranks) {
    throw Error(Code::InvalidArgument, fmt::format("imagined cluster '{}' has {} ranks, and this World {}: expected as "
                                                   "many",
                                                   on.name, on.network.ranks(), ranks));
  }
  const std::vector<std::string> carriers{"inproc"};
  if (!config.transports.empty() && config.transports != carriers) {
    throw Error(Code::InvalidArgument,
                fmt::format("transports {}: expected none but inproc on an imagined cluster, whose ranks are threads",
                            fmt::join(config.transports, ", ")));
  }
  config.transports = carriers;
}

void imagine_place(const ImaginedWorld& imagined, int rank, LocalFacts& mine) {
  const Network& network = imagined.on.network;
  const RankSpot& spot = imagined.cluster.ranks[static_cast<std::size_t>(rank)];
  mine.host_id = imagined.cluster.hosts[static_cast<std::size_t>(spot.host)].identity;
  mine.process_id = fmt::format("rank {}", rank);
  mine.usable_cores = spot.usable_cores;
  mine.nic = network.nic_of_place(network.place_of(rank));
}

void imagine_rates(const ImaginedWorld& imagined, Facts& facts) {
  const Network& network = imagined.on.network;
  facts.copy_bytes_per_s = network.copy_bytes_per_s;
  facts.reduce_bytes_per_s = network.reduce_bytes_per_s;
  facts.rates_source = CostSource::Catalog;
  for (auto& [where, row] : facts.links) {
    for (Facts::Link& link : row) link.source = CostSource::Catalog;
  }
  facts.source = fmt::format("imagined: {}", imagined.on.name);
}

}  // namespace sinew
