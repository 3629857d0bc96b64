#pragma once

#include <span>
#include <string>
#include <vector>

#include <sinew/collectives/selection/facts.hpp>
#include <sinew/core/base/export.hpp>

namespace sinew {

/// The hosts of a group of ranks. The place of a rank is its number among the group's ranks of its host.
struct SINEW_API HostsOfGroup {
  /// `world_ranks`: the group's ranks, by their numbers in it.
  HostsOfGroup(const Facts& facts, std::span<const int> world_ranks);

  int hosts() const noexcept { return static_cast<int>(ranks_on.size()); }
  int ranks_per_host() const noexcept { return static_cast<int>(ranks_on.front().size()); }
  /// The ranks at one place of all hosts, in the order of the hosts. Precondition: hosts have equally many ranks.
  std::vector<int> ranks_at(int place) const;

  /// The numbers in the group of each host's ranks, in rising order. Hosts are in the order of their first ranks.
  std::vector<std::vector<int>> ranks_on;
  std::vector<int> host_of;   ///< by rank of the group
  std::vector<int> place_of;  ///< by rank of the group
  bool are_equal = true;      ///< all hosts have equally many ranks
  bool are_in_order = true;   ///< ranks are numbered host by host
  double ranks_per_nic = 1;   ///< the most ranks that share one NIC
};

}  // namespace sinew
