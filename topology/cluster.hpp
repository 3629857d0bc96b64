#pragma once

#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// Where a rank runs.
struct RankSpot {
  int host = 0;           ///< index in Cluster::hosts
  int numa_node = -1;     ///< of that host; -1: not bound to one
  int usable_cores = 1;   ///< of its host, by all its ranks together
  int gpu = -1;           ///< index in its Machine::gpus; -1: none, or none that its machine shows
  int nic = -1;           ///< the nearest, index in its Machine::nics; -1: none carries data (nearest_nic.hpp)
  std::string nic_why{};  ///< "PIX from gpu:0"
  friend bool operator==(const RankSpot&, const RankSpot&) = default;
};

/// All hosts of a job and which rank runs where: equal on all ranks.
struct SINEW_API Cluster {
  std::vector<Machine> hosts;  ///< in the order of their first ranks
  std::vector<RankSpot> ranks;

  /// Ranks ascending in each group, groups in the order of their first ranks.
  std::vector<std::vector<int>> groups_by_host() const;
  /// By host and NUMA node; the ranks of a host that are bound to no node form a group of their own.
  std::vector<std::vector<int>> groups_by_numa() const;
  /// The ranks that share `rank`'s host, itself among them.
  std::vector<int> ranks_on_host(int rank) const;

  friend bool operator==(const Cluster&, const Cluster&) = default;
};

}  // namespace sinew
