#include <algorithm>
#include <utility>

#include <sinew/topology/cluster.hpp>

namespace sinew {
namespace {

template <class Key>
std::vector<std::vector<int>> groups(const Cluster& cluster, Key key) {
  std::vector<std::vector<int>> result;
  for (int r = 0; r < static_cast<int>(cluster.ranks.size()); ++r) {
    const auto same = [&](const std::vector<int>& group) {
      return key(cluster.ranks[static_cast<std::size_t>(group.front())]) ==
             key(cluster.ranks[static_cast<std::size_t>(r)]);
    };
    const auto group = std::ranges::find_if(result, same);
    if (group == result.end()) {
      result.push_back({r});
    } else {
      group->push_back(r);
    }
  }
  return result;
}

}  // namespace

std::vector<std::vector<int>> Cluster::groups_by_host() const {
  return groups(*this, [](const RankSpot& r) { return r.host; });
}

std::vector<std::vector<int>> Cluster::groups_by_numa() const {
  return groups(*this, [](const RankSpot& r) { return std::pair(r.host, r.numa_node); });
}

std::vector<int> Cluster::ranks_on_host(int rank) const {
  std::vector<int> same;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].host == ranks.at(static_cast<std::size_t>(rank)).host) same.push_back(static_cast<int>(r));
  }
  return same;
}

}  // namespace sinew
