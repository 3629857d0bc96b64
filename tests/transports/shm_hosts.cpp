#include <cstdlib>
#include <numeric>
#include <transports/shm_hosts.hpp>

#include <sinew/core/config.hpp>
#include <sinew/topology/cluster/rank_parts.hpp>
#include <sinew/topology/discover.hpp>

namespace sinew::test {

std::vector<PartsOfRanks> parts_on(const std::string& machine, const std::vector<int>& cores) {
  ::setenv("HWLOC_SYNTHETIC", machine.c_str(), 1);
  Cluster cluster{.hosts = {discover(Config{})}, .ranks = {}};
  ::unsetenv("HWLOC_SYNTHETIC");
  const Machine& host = cluster.hosts.front();
  for (const int core : cores) {
    const Core& on = host.cores.at(static_cast<std::size_t>(core));
    RankSpot& spot = cluster.ranks.emplace_back();
    spot.numa_node = on.numa_node;
    set_parts(host, on.cpus, spot);
  }
  std::vector<int> ranks(cores.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return parts_of_ranks(cluster, ranks);
}

std::vector<PartsOfRanks> parts_on(const std::string& machine, int ranks) {
  std::vector<int> cores(static_cast<std::size_t>(ranks));
  std::iota(cores.begin(), cores.end(), 0);
  return parts_on(machine, cores);
}

shm::Levels levels_on(const std::string& machine, int ranks) { return shm::Levels(ranks, parts_on(machine, ranks)); }

}  // namespace sinew::test
