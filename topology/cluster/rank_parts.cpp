#include <algorithm>

#include <sinew/topology/cluster/rank_parts.hpp>

namespace sinew {
namespace {

/// The index of the only cache of the last level that all of these cores share. -1: there is none.
int shared_cache(const Machine& machine, const std::vector<int>& cores) {
  int last = 0;
  for (const Cache& cache : machine.caches) last = std::max(last, cache.level);
  for (std::size_t c = 0; c < machine.caches.size(); ++c) {
    const Cache& cache = machine.caches[c];
    const auto inside = [&](int core) { return std::ranges::find(cache.cores, core) != cache.cores.end(); };
    if (cache.level == last && std::ranges::all_of(cores, inside)) return static_cast<int>(c);
  }
  return -1;
}

}  // namespace

void set_parts(const Machine& machine, std::span<const int> cpus, RankSpot& spot) {
  std::vector<int> cores;
  for (std::size_t c = 0; c < machine.cores.size(); ++c) {
    if (std::ranges::find_first_of(machine.cores[c].cpus, cpus) != machine.cores[c].cpus.end())
      cores.push_back(static_cast<int>(c));
  }
  if (cores.empty()) return;
  const auto package_of = [&](int core) { return machine.cores[static_cast<std::size_t>(core)].package; };
  const int package = package_of(cores.front());
  if (std::ranges::all_of(cores, [&](int core) { return package_of(core) == package; })) spot.package = package;
  spot.cache = shared_cache(machine, cores);
}

std::vector<PartsOfRanks> parts_of_ranks(const Cluster& cluster, std::span<const int> ranks) {
  std::vector<PartsOfRanks> parts{{HostPart::Cache, {}}, {HostPart::NumaNode, {}}, {HostPart::Package, {}}};
  for (const int r : ranks) {
    const RankSpot& spot = cluster.ranks[static_cast<std::size_t>(r)];
    parts[0].numbers.push_back(spot.cache);
    parts[1].numbers.push_back(spot.numa_node);
    parts[2].numbers.push_back(spot.package);
  }
  return parts;
}

}  // namespace sinew
