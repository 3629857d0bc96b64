#include <algorithm>

#include <sinew/topology/cluster.hpp>

namespace sinew {
std::vector<std::vector<int>> Cluster::groups_by_host() const {
  const auto host_of = [this](int rank) { return ranks[static_cast<std::size_t>(rank)].host; };
  std::vector<std::vector<int>> groups;
  for (int r = 0; r < static_cast<int>(ranks.size()); ++r) {
    const auto group = std::ranges::find_if(groups, [&](const auto& g) { return host_of(g.front()) == host_of(r); });
    if (group == groups.end()) {
      groups.push_back({r});
    } else {
      group->push_back(r);
    }
  }
  return groups;
}

std::vector<int> Cluster::ranks_on_host(int rank) const {
  std::vector<int> same;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].host == ranks.at(static_cast<std::size_t>(rank)).host) same.push_back(static_cast<int>(r));
  }
  return same;
}

}  // namespace sinew
