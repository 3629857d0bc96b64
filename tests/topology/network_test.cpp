#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/topology/catalog/named_networks.hpp>
#include <sinew/topology/network.hpp>

namespace sinew {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> described(const Network& network, int from, int to) {
  std::vector<std::string> links;
  for (const NetworkLink& link : network.route(from, to)) links.push_back(network.describe(link));
  return links;
}

std::string refusal(const auto& make) {
  try {
    make();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    return e.what();
  }
  return "";
}

TEST(Network, StaysOnTheHost_WhereItCan) {
  EXPECT_THAT(described(one_switch(host_model("dgx-h100"), 2), 9, 14),
              ElementsAre("rank out of rank 9", "memory of host 1", "rank in of rank 14"));
}

TEST(Network, TakesTheRanksOwnNics_BetweenHosts) {
  EXPECT_THAT(described(one_switch(host_model("dgx-h100"), 2), 3, 13),
              ElementsAre("pci out of rank 3", "nic out 3 of host 0", "nic in 5 of host 1", "pci in of rank 13"));
}

TEST(Network, SharesANic_WhereRanksAreMore) {
  Network shared = one_switch(host_model("xeon-2s"), 2);
  shared.nics_per_host = 1;
  EXPECT_THAT(described(shared, 1, 2),
              ElementsAre("pci out of rank 1", "nic out 0 of host 0", "nic in 0 of host 1", "pci in of rank 2"));
}

TEST(Network, NumbersRanksHostByHost_WhereHostsAreUnequal) {
  Network n = one_switch(host_model("epyc-2s"), 3);
  n.ranks_per_host = 5;
  n.ranks_on = {3, 5, 1};
  n.nic_by_place = {0, 1, 0, 1, 0};
  EXPECT_EQ(n.ranks(), 9);
  EXPECT_EQ(n.count(Tier::RankOut), 9);
  EXPECT_EQ(n.count(Tier::NicOut), 6);
  EXPECT_EQ(n.host_of(2), 0);
  EXPECT_EQ(n.host_of(3), 1);
  EXPECT_EQ(n.place_of(7), 4);
  EXPECT_EQ(n.host_of(8), 2);
  EXPECT_THAT(described(n, 1, 6),
              ElementsAre("pci out of rank 1", "nic out 1 of host 0", "nic in 1 of host 1", "pci in of rank 6"));
  EXPECT_THAT(described(n, 8, 7),
              ElementsAre("pci out of rank 8", "nic out 0 of host 2", "nic in 0 of host 1", "pci in of rank 7"));
  EXPECT_THAT(described(n, 3, 7), ElementsAre("rank out of rank 3", "memory of host 1", "rank in of rank 7"));
}

TEST(Network, CrossesTheSpineOfAFatTree_OnlyFromLeafToLeaf) {
  const Network tree = fat_tree(host_model("dgx-h100"), 8, 4, 2);
  EXPECT_EQ(tree.count(Tier::LeafUp), 2);
  EXPECT_THAT(described(tree, 0, 3 * 8), Not(::testing::Contains(HasSubstr("leaf"))));
  EXPECT_THAT(described(tree, 3 * 8, 4 * 8), ElementsAre("pci out of rank 24", "nic out 0 of host 3", "leaf up 0",
                                                         "leaf down 1", "nic in 0 of host 4", "pci in of rank 32"));
}

TEST(Network, CrossesTheSpineOfRails_OnlyFromRailToRail) {
  const Network rails = rail_optimised(host_model("dgx-h100"), 100);
  EXPECT_EQ(rails.count(Tier::LeafUp), 8);
  EXPECT_THAT(described(rails, 3, 99 * 8 + 3), Not(::testing::Contains(HasSubstr("leaf"))));
  EXPECT_THAT(described(rails, 3, 99 * 8 + 4), ::testing::IsSupersetOf({"leaf up 3", "leaf down 4"}));
}

/// 32 hosts of 8 NICs of 50 GB/s on a leaf, of which half gets through.
TEST(Network, GivesALeafThePartOfItsNics_ThatOversubscriptionLeaves) {
  const Network tree = fat_tree(host_model("dgx-h100"), 64, 32, 2);
  EXPECT_DOUBLE_EQ(tree.rate(Tier::LeafUp).bytes_per_s, 32 * 8 * 50e9 / 2);
  EXPECT_EQ(tree.name, "dgx-h100x64");
}

TEST(Network, HasWhatDatasheetsSay) {
  struct Row {
    std::string_view name;
    double inside, nic;
  };
  for (const Row& row : {Row{"dgx-a100", 300e9, 25e9}, Row{"dgx-h100", 450e9, 50e9}, Row{"dgx-h200", 450e9, 50e9},
                         Row{"dgx-b200", 900e9, 50e9}}) {
    const Network n = one_switch(host_model(row.name), 1);
    EXPECT_EQ(n.ranks(), 8);
    EXPECT_EQ(n.count(Tier::NicOut), 8);
    EXPECT_DOUBLE_EQ(n.rate(Tier::RankOut).bytes_per_s, row.inside) << row.name;
    EXPECT_DOUBLE_EQ(n.rate(Tier::NicIn).bytes_per_s, row.nic) << row.name;
  }
  struct Sockets {
    std::string_view name;
    double between, memory;
  };
  for (const Sockets& row : {Sockets{"xeon-2s", 128e9, 614.4e9}, Sockets{"epyc-2s", 256e9, 921.6e9}}) {
    const Network n = one_switch(host_model(row.name), 1);
    EXPECT_EQ(n.ranks(), 2);
    EXPECT_DOUBLE_EQ(n.rate(Tier::RankIn).bytes_per_s, row.between) << row.name;
    EXPECT_DOUBLE_EQ(n.rate(Tier::Memory).bytes_per_s, row.memory) << row.name;
    EXPECT_DOUBLE_EQ(n.rate(Tier::NicIn).bytes_per_s, 12.5e9) << row.name;
  }
}

TEST(Network, NamesWhatItKnows_AndWhatIsOutOfRange) {
  EXPECT_EQ(refusal([] { host_model("dgx-1"); }),
            "'dgx-1': expected a machine, one of dgx-a100, dgx-h100, dgx-h200, dgx-b200, epyc-2s, xeon-2s");
  const HostModel& host = host_model("dgx-h100");
  EXPECT_THAT(refusal([&] { one_switch(host, 0); }), HasSubstr("hosts 0: expected 1 at least"));
  EXPECT_THAT(refusal([&] { one_switch(host, 1 << 30); }), HasSubstr("ranks at most"));
  EXPECT_THAT(refusal([&] { fat_tree(host, 4, 0); }), HasSubstr("hosts per leaf 0"));
  EXPECT_THAT(refusal([&] { rail_optimised(host, 4, 0.5); }), HasSubstr("oversubscription 0.5"));
}

}  // namespace
}  // namespace sinew
