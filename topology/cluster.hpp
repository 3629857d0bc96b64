#pragma once

#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// The place where a rank runs.
struct RankSpot {
  int host = 0;           ///< index in Cluster::hosts
  int numa_node = -1;     ///< the host's NUMA node; -1: the rank is bound to none
  int usable_cores = 1;   ///< the cores that all ranks of the host may use together
  int gpu = -1;           ///< index in Machine::gpus; -1: none, or the machine does not show it
  int nic = -1;           ///< index of the nearest NIC in Machine::nics; -1: none carries data (nearest_nic.hpp)
  std::string nic_why{};  ///< "PIX from gpu:0"
  int cache = -1;         ///< index in Machine::caches of the last-level cache of its cores; -1: they share none
  int package = -1;       ///< the kernel's number of its socket; -1: the rank is bound to none
  friend bool operator==(const RankSpot&, const RankSpot&) = default;
};

/// The hosts of a job, and the place of each rank. It is equal on all ranks.
struct SINEW_API Cluster {
  std::vector<Machine> hosts;  ///< in the order of their first ranks
  std::vector<RankSpot> ranks;

  /// The ranks of each host, ascending. The hosts are in the order of their first ranks.
  std::vector<std::vector<int>> groups_by_host() const;
  /// The ranks on the host of `rank`, with `rank` itself.
  std::vector<int> ranks_on_host(int rank) const;

  friend bool operator==(const Cluster&, const Cluster&) = default;
};

}  // namespace sinew
