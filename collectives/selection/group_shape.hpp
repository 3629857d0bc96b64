#pragma once

#include <cstdint>
#include <vector>

#include <sinew/collectives/hierarchy/levels.hpp>
#include <sinew/collectives/schedule.hpp>
#include <sinew/collectives/selection/facts.hpp>

namespace sinew {

/// How the ranks of a group lie on hosts, NICs and cores. Predictions and choices ask nothing else about the group.
struct GroupShape {
  /// `numa_nodes`: as Selector.
  GroupShape(const Facts& facts, std::vector<int> world_ranks, const std::vector<int>& numa_nodes);

  /// Two ranks, by their places in the group, and the class of the link between them.
  struct Pair {
    LinkClass where;
    int a = 0, b = 0;
  };

  int ranks() const noexcept { return static_cast<int>(world_ranks.size()); }

  std::vector<int> world_ranks;
  std::vector<Pair> pairs;    ///< one pair for each class of links, in the order of the classes
  std::vector<int> nic_of;    ///< the NIC of each rank, by place in the group
  std::vector<int> ranks_on;  ///< the number of the group's ranks on each host, in the order of the hosts
  int hosts = 1;
  int crowd = 0;     ///< ranks of the group on the host where most of them share a core
  double turns = 1;  ///< how many of them share one there
  // A group of one rank leaves the members below at their initial values.
  Levels levels;
  std::vector<int> order;         ///< in which neighbours are near; empty: as they are numbered
  std::vector<int> largest_host;  ///< places of the ranks on the host with most of them
  double busiest_nic = 1;         ///< share of that host's ranks that use its busiest NIC

 private:
  void find_levels(const Facts& facts, const std::vector<int>& numa_nodes);
};

}  // namespace sinew
