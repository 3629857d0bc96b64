#include <set>

#include <gtest/gtest.h>

#include <sinew/collectives/simulator/symmetry.hpp>
#include <sinew/topology/catalog/named_networks.hpp>

namespace sinew {
namespace {

const HostModel& kHost = host_model("dgx-h100");

std::vector<Network> networks() {
  Network shared = one_switch(kHost, 4);
  shared.nics_per_host = 2;
  Network dealt = one_switch(kHost, 4);
  dealt.nic_by_place = {0, 1, 0, 1, 0, 1, 0, 1};
  Network unequal = one_switch(kHost, 3);
  unequal.ranks_on = {3, 8, 1};
  return {one_switch(kHost, 4),
          one_switch(kHost, 1),
          rail_optimised(kHost, 6),
          fat_tree(kHost, 8, 4),
          shared,
          dealt,
          unequal};
}

TEST(Symmetry, PutsEachRankIntoAKindOfEqualsSize) {
  for (const Network& n : networks()) {
    for (const Symmetry& s : Symmetry::all_of(n)) {
      std::vector<int> members(static_cast<std::size_t>(s.kinds()));
      for (int r = 0; r < n.ranks(); ++r) {
        ++members[static_cast<std::size_t>(s.kind_of(r))];
        EXPECT_EQ(s.seen_from(r, r), s.first_of(s.kind_of(r)));
      }
      for (int k = 0; k < s.kinds(); ++k) {
        EXPECT_EQ(members[static_cast<std::size_t>(k)], s.alike());
        EXPECT_EQ(s.kind_of(s.first_of(k)), k);
        for (const int sample : s.samples(k)) EXPECT_EQ(s.kind_of(sample), k);
      }
    }
  }
}

/// A shift takes pairs on one host to pairs on one host, different ones to different ones, and kinds to themselves.
TEST(Symmetry, KeepsHostsTogether) {
  for (const Network& n : networks()) {
    for (const Symmetry& s : Symmetry::all_of(n)) {
      for (int r = 0; r < n.ranks(); ++r) {
        std::set<int> seen;
        for (int q = 0; q < n.ranks(); ++q) {
          const int at = s.seen_from(r, q);
          seen.insert(at);
          EXPECT_EQ(s.kind_of(at), s.kind_of(q));
          EXPECT_EQ(n.host_of(at) == n.host_of(s.first_of(s.kind_of(r))), n.host_of(q) == n.host_of(r));
        }
        EXPECT_EQ(seen.size(), static_cast<std::size_t>(n.ranks()));
      }
    }
  }
}

TEST(Symmetry, HasAllLinksInItsClasses) {
  for (const Network& n : networks()) {
    for (const Symmetry& s : Symmetry::all_of(n)) {
      for (std::size_t t = 0; t < kTiers; ++t) {
        const auto tier = static_cast<Tier>(t);
        int links = 0;
        for (int l = 0; l < n.count(tier); ++l) {
          if (s.first_like({tier, l}) == NetworkLink{tier, l}) links += s.links_like({tier, l});
        }
        EXPECT_EQ(links, n.count(tier)) << name_of(tier) << " of " << n.name << ", " << s.describe();
      }
    }
  }
}

/// Leaves of 4 hosts: of 8 hosts that send to the next one, two cross; half of those that send two further; all that
/// send four further.
TEST(Symmetry, CountsThoseThatCrossTheSpine) {
  const Network n = fat_tree(kHost, 8, 4);
  const Symmetry hosts(n, Shift::Cyclic, 1, Shift::None);
  EXPECT_FALSE(hosts.exact());
  EXPECT_DOUBLE_EQ(hosts.crossing(0, 1 * 8), 0.25);
  EXPECT_DOUBLE_EQ(hosts.crossing(0, 2 * 8), 0.5);
  EXPECT_DOUBLE_EQ(hosts.crossing(0, 4 * 8), 1);
  const Symmetry flips(n, Shift::Flip, 1, Shift::None);
  EXPECT_DOUBLE_EQ(flips.crossing(0, 3 * 8), 0);
  EXPECT_DOUBLE_EQ(flips.crossing(0, 7 * 8), 1);
  const Symmetry leaves(n, Shift::Cyclic, 4, Shift::None);
  EXPECT_TRUE(leaves.exact());
  EXPECT_DOUBLE_EQ(leaves.crossing(0, 1 * 8), 0);
  EXPECT_DOUBLE_EQ(leaves.crossing(3 * 8, 4 * 8), 1);
}

}  // namespace
}  // namespace sinew
