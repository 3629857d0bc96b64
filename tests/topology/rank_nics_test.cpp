// The NIC of each rank of a job, as all its ranks come to know it.
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/topology/catalog/named_machines.hpp>
#include <sinew/topology/cluster/gather_cluster.hpp>
#include <sinew/topology/format/json/json.hpp>
#include <sinew/topology/model/distance.hpp>

namespace sinew {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Field;

Machine host(std::string_view machine, const std::string& name) {
  Machine m = named_machine(machine);
  m.identity = m.host_name = name;
  return m;
}

/// As gather_cluster() makes it of what leaders publish.
Cluster merged(const std::vector<RankPlace>& places, const std::vector<Machine>& hosts) {
  std::vector<Bytes> machines(places.size());
  for (const int leader : host_leaders(places)) {
    Bytes& bytes = machines[static_cast<std::size_t>(leader)];
    const auto here = std::ranges::find(hosts, places[static_cast<std::size_t>(leader)].host, &Machine::identity);
    bytes.push_back(std::byte{'M'});
    for (const char c : to_json(*here, -1)) bytes.push_back(static_cast<std::byte>(c));
  }
  return merge_cluster(places, machines);
}

RankPlace on_gpu(const Machine& m, std::size_t gpu) {
  return {.host = m.identity, .gpu = m.gpus[gpu].pci, .interfaces = {}};
}

/// Bound to all cores of these NUMA nodes; none: to all of the machine.
RankPlace on_nodes(const Machine& m, const std::vector<int>& nodes, const std::string& interfaces = {}) {
  RankPlace place{.host = m.identity, .gpu = {}, .interfaces = interfaces};
  for (const Core& core : m.cores) {
    if (nodes.empty() || std::ranges::find(nodes, core.numa_node) != nodes.end())
      place.cpus.insert(place.cpus.end(), core.cpus.begin(), core.cpus.end());
  }
  std::ranges::sort(place.cpus);
  return place;
}

std::vector<std::string> nic_names(const Cluster& cluster) {
  std::vector<std::string> names;
  for (const RankSpot& spot : cluster.ranks) {
    const std::vector<Nic>& nics = cluster.hosts[static_cast<std::size_t>(spot.host)].nics;
    names.push_back(spot.nic < 0 ? "none" : nics.at(static_cast<std::size_t>(spot.nic)).name);
  }
  return names;
}

TEST(RankNics, AreAllInUse_OnEightHostsOfEight) {
  std::vector<Machine> hosts;
  std::vector<RankPlace> places;
  for (int h = 0; h < 8; ++h) hosts.push_back(host("dgx-h100", "h" + std::to_string(h)));
  for (std::size_t r = 0; r < 64; ++r) places.push_back(on_gpu(hosts[r / 8], r % 8));
  const Cluster cluster = merged(places, hosts);
  std::vector<std::set<int>> used(hosts.size());
  for (std::size_t r = 0; r < 64; ++r) {
    const RankSpot& spot = cluster.ranks[r];
    EXPECT_EQ(spot.gpu, static_cast<int>(r % 8));
    const Machine& machine = cluster.hosts[static_cast<std::size_t>(spot.host)];
    const std::string& nic = machine.nics.at(static_cast<std::size_t>(spot.nic)).name;
    EXPECT_EQ(distance(machine, "gpu:" + std::to_string(spot.gpu), "nic:" + nic).between, Between::Pix) << r;
    EXPECT_EQ(spot.nic_why, "PIX from gpu:" + std::to_string(r % 8));
    used[r / 8].insert(spot.nic);
    EXPECT_EQ(spot.nic, cluster.ranks[r % 8].nic) << "the same rail on every host";
  }
  EXPECT_THAT(used, Each(testing::SizeIs(8)));
}

/// Two GPUs and two NICs below one switch: by turns of the ranks that are as near.
TEST(RankNics, AreSharedEqually_WhereTwoAreAsNear) {
  const Machine dgx = host("dgx-a100", "a");
  std::vector<RankPlace> places;
  for (const std::size_t gpu : {3, 2, 7, 6}) places.push_back(on_gpu(dgx, gpu));
  const Cluster cluster = merged(places, {dgx});
  const auto nic_of = [&](std::size_t r) { return cluster.ranks[r].nic; };
  EXPECT_NE(nic_of(0), nic_of(1));
  EXPECT_NE(nic_of(2), nic_of(3));
  for (std::size_t r = 0; r < 4; ++r) EXPECT_NE(cluster.ranks[r].nic_why.find("gpu:"), std::string::npos);
}

TEST(RankNics, FollowTheCores_WhereRanksHaveNoGpu) {
  const Machine xeon = host("xeon-2s", "a");
  const Cluster bound = merged({on_nodes(xeon, {1}), on_nodes(xeon, {0}), on_nodes(xeon, {1})}, {xeon});
  EXPECT_THAT(nic_names(bound), ElementsAre("eth1", "eth0", "eth1"));
  EXPECT_EQ(bound.ranks[0].nic_why, "PHB from numa:1");
  const Cluster free = merged({on_nodes(xeon, {}), on_nodes(xeon, {}), on_nodes(xeon, {})}, {xeon});
  EXPECT_THAT(nic_names(free), ElementsAre("eth0", "eth1", "eth0"));
  EXPECT_THAT(free.ranks, Each(Field(&RankSpot::gpu, -1)));
}

/// A socket of four nodes (NPS4): what is bound to all of it is near what hangs on one of them.
TEST(RankNics, FollowTheSocket_WhereItHasSeveralNodes) {
  const Machine dgx = host("dgx-a100", "a");
  ASSERT_EQ(dgx.numa_nodes.size(), 8U);
  std::vector<RankPlace> places(8, on_nodes(dgx, {4, 5, 6, 7}));
  const Cluster cluster = merged(places, {dgx});
  for (const RankSpot& spot : cluster.ranks)
    EXPECT_GE(dgx.nics.at(static_cast<std::size_t>(spot.nic)).numa_node, 4) << spot.nic_why;
}

TEST(RankNics, AreOfTheInterfacesThatEachRankIsTold) {
  const Machine xeon = host("xeon-2s", "a");
  const Cluster cluster = merged({on_nodes(xeon, {0}, "eth1"), on_nodes(xeon, {0}, "eth0,eth1"),
                                  on_nodes(xeon, {0}, "mlx5_1"), on_nodes(xeon, {0}, "wire9")},
                                 {xeon});
  EXPECT_THAT(nic_names(cluster), ElementsAre("eth1", "eth0", "eth1", "none"));
}

TEST(RankNics, AreTheOnlyInterface_WhereAContainerShowsNothingElse) {
  Machine container = host("xeon-2s", "a");
  container.pci_devices.clear();
  for (Nic& nic : container.nics) {
    nic.pci.clear();
    nic.rdma = {};
    nic.numa_node = -1;
  }
  const Cluster cluster =
      merged({on_nodes(container, {0}), on_nodes(container, {1}), on_nodes(container, {})}, {container});
  EXPECT_THAT(nic_names(cluster), Each("eth0"));
}

TEST(RankNics, GoByTheCores_WhereTheMachineShowsNoSuchGpu) {
  const Machine dgx = host("dgx-h100", "a");
  RankPlace place = on_nodes(dgx, {1});
  place.gpu = "0000:ee:00.0";
  const Cluster cluster = merged({place}, {dgx});
  EXPECT_EQ(cluster.ranks[0].gpu, -1);
  EXPECT_EQ(dgx.nics.at(static_cast<std::size_t>(cluster.ranks[0].nic)).numa_node, 1);
}

/// Two hosts whose ranks are on eth0 and eth1, with these addresses.
Cluster two_hosts(const std::vector<std::vector<NicAddress>>& of_nics) {
  std::vector<Machine> hosts{host("xeon-2s", "a"), host("xeon-2s", "b")};
  std::vector<RankPlace> places;
  for (std::size_t h = 0; h < 2; ++h) {
    for (std::size_t n = 0; n < 2; ++n) {
      hosts[h].nics.at(n).addresses = of_nics.at(2 * h + n);
      places.push_back(on_nodes(hosts[h], {static_cast<int>(n)}));
    }
  }
  return merged(places, hosts);
}

TEST(RankNics, ShareANetwork_OnlyWhereAllHaveAnAddressOfItsOwnThere) {
  const NicAddress v6{"fd00::1", 64, true};
  const auto at = [](const std::string& text, int prefix = 24) { return NicAddress{text, prefix, false}; };
  EXPECT_TRUE(
      nics_share_network(two_hosts({{at("10.0.0.1")}, {v6, at("10.0.0.2")}, {at("10.0.0.3")}, {at("10.0.0.4")}})));
  EXPECT_TRUE(nics_share_network(two_hosts(
      {{at("10.1.0.1"), at("10.0.0.1")}, {at("10.0.0.2"), at("10.2.0.2")}, {at("10.0.0.3")}, {at("10.0.0.4")}})));
  EXPECT_FALSE(nics_share_network(two_hosts({{at("10.0.0.1")}, {at("10.0.1.1")}, {at("10.0.0.2")}, {at("10.0.1.2")}})))
      << "rails";
  EXPECT_FALSE(nics_share_network(two_hosts({{at("10.0.0.1")}, {at("10.0.0.2")}, {at("10.0.0.1")}, {at("10.0.0.2")}})))
      << "the same addresses on both hosts";
  EXPECT_FALSE(nics_share_network(two_hosts({{at("10.0.0.1")}, {}, {at("10.0.0.3")}, {at("10.0.0.4")}})));
  EXPECT_FALSE(nics_share_network(two_hosts({{v6}, {v6}, {v6}, {v6}})));
}

/// One of the ranks publishes a place that nobody can read: all of them refuse, after as many rounds as ever.
TEST(RankNics, BreakOffTogether_WhereAPlaceIsBroken) {
  auto exchanges = thread_exchanges(3, std::chrono::seconds(60));
  std::vector<std::string> said(3);
  std::vector<int> rounds(3);
  {
    std::vector<std::jthread> ranks;
    for (std::size_t r = 0; r < 3; ++r) {
      ranks.emplace_back([&, r] {
        Exchange mine = exchanges[r];
        mine.all_gather = [&, r](const Bytes& bytes) {
          const bool spoil = r == 1 && rounds[r] == 0;
          ++rounds[r];
          return exchanges[r].all_gather(spoil ? Bytes{std::byte{'?'}} : bytes);
        };
        try {
          (void)gather_cluster(mine, {});
        } catch (const Error& e) {
          said[r] = e.what();
        }
      });
    }
  }
  EXPECT_THAT(said, Each(testing::StartsWith("not JSON")));
  EXPECT_THAT(rounds, Each(2));
}

}  // namespace
}  // namespace sinew
