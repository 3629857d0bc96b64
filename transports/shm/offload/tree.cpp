#include <algorithm>

#include <sinew/transports/shm/offload/tree.hpp>

namespace sinew::shm {
namespace {

/// The heap-shaped tree over `members`, as `rank` sees it.
void join(Tree& tree, std::span<const int> members, int rank) {
  const int at = static_cast<int>(std::ranges::find(members, rank) - members.begin());
  if (at > 0) tree.parent = members[static_cast<std::size_t>((at - 1) / kFanIn)];
  const int end = std::min(kFanIn * at + kFanIn + 1, static_cast<int>(members.size()));
  for (int child = kFanIn * at + 1; child < end; ++child)
    tree.children.push_back(members[static_cast<std::size_t>(child)]);
}

}  // namespace

Tree tree_of(int rank, int root, std::span<const int> domains) {
  const auto domain_of = [domains](int r) { return domains[static_cast<std::size_t>(r)]; };
  std::vector<int> leaders{root};
  for (int r = 0; r < static_cast<int>(domains.size()); ++r) {
    if (std::ranges::find(leaders, domain_of(r), domain_of) == leaders.end()) leaders.push_back(r);
  }
  const int leader = *std::ranges::find(leaders, domain_of(rank), domain_of);
  std::vector<int> near{leader};
  for (int r = 0; r < static_cast<int>(domains.size()); ++r) {
    if (r != leader && domain_of(r) == domain_of(rank)) near.push_back(r);
  }
  Tree tree;
  if (rank == leader) join(tree, leaders, rank);
  join(tree, near, rank);
  return tree;
}

int tree_levels(int ranks) noexcept {
  int levels = 0;
  for (int reached = 1, width = kFanIn; reached < ranks; reached += width, width *= kFanIn) ++levels;
  return levels;
}

}  // namespace sinew::shm
