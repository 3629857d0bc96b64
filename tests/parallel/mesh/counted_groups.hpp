#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/parallel/mesh/factorisation.hpp>

namespace sinew::parallel::test {

using Groups = std::vector<std::vector<int>>;

/// Groups along `named` by dealing out ranks 0, 1, 2, .. to the points of the box as an odometer counts, the first axis
/// turning fastest: points that differ on named axes only are one group. No strides, products or divisions.
inline Groups counted_groups(const std::vector<Axis>& axes, const std::vector<std::string>& named) {
  Groups groups;
  std::map<std::vector<int>, std::size_t> group_at;  // by the point on the axes that are not named
  std::vector<int> point(axes.size(), 0);
  for (int rank = 0;; ++rank) {
    std::vector<int> elsewhere;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (std::ranges::find(named, axes[i].name) == named.end()) elsewhere.push_back(point[i]);
    }
    const auto [at, is_new] = group_at.try_emplace(elsewhere, groups.size());
    if (is_new) groups.emplace_back();
    groups[at->second].push_back(rank);

    std::size_t wheel = 0;
    while (wheel < axes.size() && ++point[wheel] == axes[wheel].size) point[wheel++] = 0;
    if (wheel == axes.size()) return groups;
  }
}

/// "tp-cp" as {"tp", "cp"}.
inline std::vector<std::string> names_in(std::string_view joined) {
  std::vector<std::string> names(1);
  for (const char c : joined) {
    if (c == '-') {
      names.emplace_back();
    } else {
      names.back() += c;
    }
  }
  return names;
}

/// The group that has the rank.
inline std::vector<int> group_with(const Groups& groups, int rank) {
  for (const std::vector<int>& g : groups) {
    if (std::ranges::find(g, rank) != g.end()) return g;
  }
  return {};
}

}  // namespace sinew::parallel::test
