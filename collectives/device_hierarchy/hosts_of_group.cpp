#include <algorithm>
#include <map>
#include <utility>

#include <sinew/collectives/device_hierarchy/hosts_of_group.hpp>

namespace sinew {

HostsOfGroup::HostsOfGroup(const Facts& facts, std::span<const int> world_ranks) {
  std::map<int, int> number_of;  // of a host of the World in `ranks_on`
  std::map<std::pair<int, int>, int> users;
  for (std::size_t r = 0; r < world_ranks.size(); ++r) {
    const Facts::Rank& rank = facts.ranks[static_cast<std::size_t>(world_ranks[r])];
    const auto [at, is_new] = number_of.try_emplace(rank.host, static_cast<int>(number_of.size()));
    if (is_new) ranks_on.emplace_back();
    auto& here = ranks_on[static_cast<std::size_t>(at->second)];
    are_in_order = are_in_order && at->second + 1 == hosts();
    host_of.push_back(at->second);
    place_of.push_back(static_cast<int>(here.size()));
    here.push_back(static_cast<int>(r));
    ranks_per_nic = std::max<double>(ranks_per_nic, ++users[{rank.host, rank.nic}]);
  }
  are_equal = std::ranges::all_of(ranks_on, [&](const auto& on) { return on.size() == ranks_on.front().size(); });
}

std::vector<int> HostsOfGroup::ranks_at(int place) const {
  std::vector<int> ranks;
  for (const auto& on : ranks_on) ranks.push_back(on[static_cast<std::size_t>(place)]);
  return ranks;
}

}  // namespace sinew
