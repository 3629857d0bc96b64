#include <algorithm>
#include <span>

#include <sinew/transports/shm/model/tree.hpp>

namespace sinew::shm {
namespace {

/// The heap-shaped tree over `members`, as `rank` sees it. The first member is the root of this tree.
void join(Tree& tree, std::span<const int> members, int rank, int fan_in) {
  const int at = static_cast<int>(std::ranges::find(members, rank) - members.begin());
  if (at > 0) tree.parent = members[static_cast<std::size_t>((at - 1) / fan_in)];
  const int end = std::min(fan_in * at + fan_in + 1, static_cast<int>(members.size()));
  for (int child = fan_in * at + 1; child < end; ++child)
    tree.children.push_back(members[static_cast<std::size_t>(child)]);
}

/// The ranks that lead the domains of a level. Each domain's leader stands at the domain's number.
std::vector<int> leaders_of(const Level& level, int root) {
  std::vector<int> leaders(static_cast<std::size_t>(level.domains), -1);
  const auto leader_of = [&](int rank) -> int& {
    return leaders[static_cast<std::size_t>(level.domain_of[static_cast<std::size_t>(rank)])];
  };
  leader_of(root) = root;
  for (int r = 0; r < static_cast<int>(level.domain_of.size()); ++r) {
    if (leader_of(r) < 0) leader_of(r) = r;
  }
  return leaders;
}

}  // namespace

Tree tree_of(int rank, int root, const Levels& levels, int fan_in) {
  std::vector<std::vector<int>> joined;  // the members of each level's tree that this rank is in, leader first
  std::vector<int> candidates(static_cast<std::size_t>(levels.ranks()));
  for (int r = 0; r < levels.ranks(); ++r) candidates[static_cast<std::size_t>(r)] = r;
  bool leads = true;
  for (std::size_t l = 0; leads && l <= levels.all().size(); ++l) {
    const bool outermost = l == levels.all().size();
    const Level* level = outermost ? nullptr : &levels.all()[l];
    const auto domain_of = [&](int r) { return level == nullptr ? 0 : level->domain_of[static_cast<std::size_t>(r)]; };
    std::vector<int> leaders = outermost ? std::vector<int>{root} : leaders_of(*level, root);
    const int leader = leaders[static_cast<std::size_t>(domain_of(rank))];
    std::vector<int>& members = joined.emplace_back(1, leader);
    for (const int r : candidates) {
      if (r != leader && domain_of(r) == domain_of(rank)) members.push_back(r);
    }
    leads = leader == rank;
    candidates = std::move(leaders);
  }
  Tree tree;
  for (std::size_t l = joined.size(); l-- > 0;) join(tree, joined[l], rank, fan_in);  // the farthest children first
  return tree;
}

int tree_steps(int members, int fan_in) noexcept {
  int steps = 0;
  for (int reached = 1, width = fan_in; reached < members; reached += width, width *= fan_in) ++steps;
  return steps;
}

}  // namespace sinew::shm
