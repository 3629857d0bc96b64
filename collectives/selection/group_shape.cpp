#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <utility>

#include <sinew/collectives/hierarchy/near_order.hpp>
#include <sinew/collectives/selection/group_shape.hpp>

namespace sinew {

GroupShape::GroupShape(const Facts& facts, std::vector<int> of_world, const std::vector<int>& numa_nodes)
    : world_ranks(std::move(of_world)) {
  std::map<LinkClass, std::pair<int, int>> between;
  for (std::size_t i = 0; i < world_ranks.size(); ++i) {
    for (std::size_t j = i + 1; j < world_ranks.size(); ++j) {
      between.try_emplace(facts.class_of(world_ranks[i], world_ranks[j]), static_cast<int>(i), static_cast<int>(j));
    }
  }
  for (const auto& [where, places] : between) pairs.push_back({where, places.first, places.second});
  std::map<int, int> ranks_of_host;
  for (const int r : world_ranks) {
    const Facts::Rank& rank = facts.ranks[static_cast<std::size_t>(r)];
    ++ranks_of_host[rank.host];
    nic_of.push_back(rank.nic);
  }
  for (const auto& [host, here] : ranks_of_host) {
    ranks_on.push_back(here);
    const double sharing = static_cast<double>(here) / facts.cores_of_host[static_cast<std::size_t>(host)];
    if (sharing <= turns) continue;
    turns = sharing;
    crowd = here;
  }
  if (world_ranks.size() > 1) find_levels(facts, numa_nodes);
}

void GroupShape::find_levels(const Facts& facts, const std::vector<int>& numa_nodes) {
  std::vector<int> host_of;
  for (const int r : world_ranks) host_of.push_back(facts.ranks[static_cast<std::size_t>(r)].host);
  std::vector<int> nodes;
  for (std::size_t i = 0; i < numa_nodes.size(); ++i) nodes.push_back(host_of[i] << 16 | (numa_nodes[i] + 1));
  if (!nodes.empty()) levels.part_of.push_back(nodes);
  levels.part_of.push_back(host_of);
  const std::set<int> distinct(host_of.begin(), host_of.end());
  hosts = static_cast<int>(distinct.size());
  for (const int host : distinct) {
    std::vector<int> places;
    for (std::size_t i = 0; i < host_of.size(); ++i) {
      if (host_of[i] == host) places.push_back(static_cast<int>(i));
    }
    if (places.size() > largest_host.size()) largest_host = std::move(places);
  }
  std::map<int, int> users;
  for (const int place : largest_host) ++users[nic_of[static_cast<std::size_t>(place)]];
  const int most = std::ranges::max(std::views::values(users));
  busiest_nic = static_cast<double>(most) / static_cast<double>(largest_host.size());
  order = near_order(levels, static_cast<int>(host_of.size()));
  if (std::ranges::is_sorted(order)) order.clear();
}

}  // namespace sinew
