#include <algorithm>
#include <set>
#include <transports/shm_hosts.hpp>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/transports/shm/model/levels.hpp>
#include <sinew/transports/shm/model/tree.hpp>

namespace sinew {
namespace {

using shm::Levels;
using shm::Shared;
using shm::Tree;
using testing::ElementsAre;

std::vector<HostPart> kinds_of(const Levels& levels) {
  std::vector<HostPart> kinds;
  for (const shm::Level& level : levels.all()) kinds.push_back(level.kind);
  return kinds;
}

/// All ranks' places fit together, all of them hang from the root, and each domain of each level is entered once.
void expect_tree(int root, const Levels& levels) {
  std::vector<Tree> trees;
  for (int r = 0; r < levels.ranks(); ++r) trees.push_back(shm::tree_of(r, root, levels));
  std::vector<int> reached{root};
  std::vector<std::set<int>> entered(levels.all().size());
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const int parent = reached[i];
    const Tree& tree = trees[static_cast<std::size_t>(parent)];
    EXPECT_LE(tree.children.size(), (levels.all().size() + 1) * shm::kFanIn);
    for (const int child : tree.children) {
      EXPECT_EQ(trees[static_cast<std::size_t>(child)].parent, parent);
      for (std::size_t l = 0; l < entered.size(); ++l) {
        const std::vector<int>& domain_of = levels.all()[l].domain_of;
        const int below = domain_of[static_cast<std::size_t>(child)];
        if (domain_of[static_cast<std::size_t>(parent)] == below) continue;
        EXPECT_TRUE(entered[l].insert(below).second) << "domain " << below << " of level " << l << " is entered twice";
      }
      reached.push_back(child);
    }
    ASSERT_LE(reached.size(), trees.size());
  }
  EXPECT_EQ(trees[static_cast<std::size_t>(root)].parent, -1);
  EXPECT_EQ(std::set(reached.begin(), reached.end()).size(), trees.size());
  for (std::size_t l = 0; l < entered.size(); ++l)
    EXPECT_EQ(entered[l].size(), static_cast<std::size_t>(levels.all()[l].domains - 1)) << "level " << l;
}

TEST(ShmLevels, AreCachesNodesAndSocketsOfAnEpyc) {
  const Levels levels = test::levels_on(test::kEpyc128, 128);
  EXPECT_THAT(kinds_of(levels), ElementsAre(HostPart::Cache, HostPart::NumaNode, HostPart::Package));
  EXPECT_EQ(levels.text(), "16 caches, 8 NUMA nodes, 2 sockets");
  EXPECT_EQ(levels.between(0, 7), Shared::Cache);
  EXPECT_EQ(levels.between(0, 8), Shared::NumaNode);
  EXPECT_EQ(levels.between(0, 16), Shared::Package);
  EXPECT_EQ(levels.between(63, 64), Shared::Host);
  EXPECT_EQ(levels.between(5, 5), Shared::Cache);
}

TEST(ShmLevels, LeaveOutPartsThatDivideNothingFurther) {
  EXPECT_EQ(test::levels_on(test::kXeon256, 256).text(), "2 caches");  // each socket is one node with one cache
  EXPECT_EQ(test::levels_on(test::kXeon256, 256).between(0, 255), Shared::Host);
  EXPECT_EQ(test::levels_on(test::kEpyc128, 8).text(), "");
  EXPECT_EQ(test::levels_on(test::kEpyc128, 16).text(), "2 caches");
  const std::vector<int> one_in_each_cache{0, 8, 16, 24, 64, 72};
  EXPECT_EQ(Levels(6, test::parts_on(test::kEpyc128, one_in_each_cache)).text(), "3 NUMA nodes, 2 sockets");
  EXPECT_EQ(Levels(5).text(), "");
  EXPECT_EQ(Levels(5).between(0, 4), Shared::Cache);
}

/// With sub-NUMA clustering the cores of one cache belong to several NUMA nodes.
TEST(ShmLevels, LieWithinEachOther_WhenACacheSpansNodes) {
  const Levels levels(8, std::vector<PartsOfRanks>{{HostPart::Cache, {0, 0, 0, 0, 1, 1, 1, 1}},
                                                   {HostPart::NumaNode, {0, 0, 1, 1, 2, 2, 3, 3}},
                                                   {HostPart::Package, {0, 0, 0, 0, 1, 1, 1, 1}}});
  EXPECT_EQ(levels.text(), "4 caches, 2 sockets");
}

TEST(ShmLevels, JoinRanksThatAreBoundToNothing) {
  const std::vector<int> loose(4, -1);
  const Levels levels(
      4, std::vector<PartsOfRanks>{{HostPart::Cache, loose}, {HostPart::NumaNode, loose}, {HostPart::Package, loose}});
  EXPECT_EQ(levels.text(), "");
  EXPECT_EQ(levels.between(0, 1), Shared::Host);
}

TEST(ShmLevels, GiveATreeThatEntersEachDomainOnce) {
  for (const std::string& machine : {test::kEpyc128, test::kXeon64, test::kXeon256}) {
    const int all = machine == test::kEpyc128 ? 128 : machine == test::kXeon64 ? 64 : 256;
    const Levels levels = test::levels_on(machine, all);
    for (int root = 0; root < all; root += 13) expect_tree(root, levels);
  }
}

TEST(ShmLevels, GiveATree_WhenRanksAreMissingAndDomainsAreUnequal) {
  for (const int keep : {2, 3, 7}) {
    std::vector<int> cores;
    for (int c = 0; c < 128; ++c) {
      if ((c * 37 + c / 8) % keep != 0) cores.push_back(c);
    }
    const int ranks = static_cast<int>(cores.size());
    const Levels in_order(ranks, test::parts_on(test::kEpyc128, cores));
    std::ranges::sort(cores, {}, [](int c) { return c * 67 % 128; });  // ranks go round the machine
    const Levels scattered(ranks, test::parts_on(test::kEpyc128, cores));
    for (const int root : {0, 1, ranks / 2, ranks - 1}) {
      expect_tree(root, in_order);
      expect_tree(root, scattered);
    }
  }
}

/// The longest way from a leaf to the root: 2 steps within a cache, and 1 for each level above.
TEST(ShmLevels, GiveATreeWithOneStepForEachLevelAboveCaches) {
  const Levels levels = test::levels_on(test::kEpyc128, 128);
  int most = 0;
  for (int r = 0; r < 128; ++r) {
    int steps = 0;
    for (int at = r; at != 0; ++steps) at = shm::tree_of(at, 0, levels).parent;
    most = std::max(most, steps);
  }
  EXPECT_EQ(most, 5);
}

}  // namespace
}  // namespace sinew
