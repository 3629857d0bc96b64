#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/topology/catalog/named_machines.hpp>
#include <sinew/topology/cluster/nearest_nic.hpp>
#include <sinew/topology/format/json/json.hpp>
#include <sinew/topology/virtual_cluster.hpp>

namespace sinew {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kDgx = TOPOLOGY_DATA "/dgx_h100_nccl.xml";

std::string complaint_about_cluster(const std::string& text) {
  try {
    (void)virtual_cluster_from(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::InvalidArgument);
    return error.what();
  }
  return "no complaint_about_cluster";
}

std::vector<std::string> nics_of_bindings(const VirtualCluster& on) {
  std::vector<std::string> names;
  for (const RankBinding& binding : on.bindings) names.push_back(on.nics[static_cast<std::size_t>(binding.nic)]);
  return names;
}

std::vector<int> nic_numbers(const std::vector<RankBinding>& bindings) {
  std::vector<int> numbers;
  for (const RankBinding& binding : bindings) numbers.push_back(binding.nic);
  return numbers;
}

/// By the user guide's table of which ConnectX-7 is beside which GPU.
TEST(VirtualCluster, GivesEachGpuOfAFileItsNic) {
  const VirtualCluster on = virtual_cluster_from(kDgx + "x2");
  EXPECT_EQ(on.network.hosts, 2);
  EXPECT_EQ(on.network.ranks(), 16);
  EXPECT_EQ(on.bindings[7].part, "gpu:7");
  EXPECT_THAT(nics_of_bindings(on), ElementsAre("mlx5_0:1", "mlx5_3:1", "mlx5_4:1", "mlx5_5:1", "mlx5_6:1", "mlx5_9:1",
                                                "mlx5_10:1", "mlx5_11:1"));
  EXPECT_EQ(nics_of_bindings(virtual_cluster_from("dgx-h100x2")), nics_of_bindings(on));
}

/// 18 NVLinks of 25 GB/s, NICs of 400 Gbit/s on PCI Express 5.0 x16.
TEST(VirtualCluster, TakesRatesFromTheMachine_AndSaysWhatItDoesNotTell) {
  const VirtualCluster on = virtual_cluster_from(kDgx + "x2");
  EXPECT_DOUBLE_EQ(on.network.rate(Tier::RankOut).bytes_per_s, 450e9);
  EXPECT_DOUBLE_EQ(on.network.rate(Tier::NicOut).bytes_per_s, 50e9);
  EXPECT_NEAR(on.network.rate(Tier::PciIn).bytes_per_s, 63e9, 0.1e9);
  EXPECT_THAT(on.assumed, ElementsAre("memory of a GPU: as that of a dgx-h100"));
  EXPECT_THAT(virtual_cluster_from("dgx-h100x2").assumed, IsEmpty());
}

/// What a machine's JSON does not tell is taken from the named machine most like it: itself.
TEST(VirtualCluster, HasTheSameRates_ByNameAndByTheJsonOfThatName) {
  for (const std::string_view name : machine_names()) {
    const std::string file = testing::TempDir() + "sinew-" + std::string(name) + ".json";
    std::ofstream(file) << to_json(named_machine(name));
    const Network described = virtual_cluster_from(file + "x2").network;
    const Network named = virtual_cluster_from(std::string(name) + "x2").network;
    for (std::size_t t = 0; t < kTiers; ++t) {
      EXPECT_DOUBLE_EQ(described.rates[t].bytes_per_s, named.rates[t].bytes_per_s)
          << name << ", " << name_of(static_cast<Tier>(t));
    }
    EXPECT_DOUBLE_EQ(described.reduce_bytes_per_s, named.reduce_bytes_per_s) << name;
    EXPECT_DOUBLE_EQ(described.copy_bytes_per_s, named.copy_bytes_per_s) << name;
    EXPECT_EQ(described.nics_per_host, named.nics_per_host) << name;
    EXPECT_EQ(described.ranks_per_host, named.ranks_per_host) << name;
  }
}

TEST(VirtualCluster, DealsRanksRoundTheSockets_WhereThereAreNoGpus) {
  const VirtualCluster on = virtual_cluster_from("xeon-2s:3+5");
  EXPECT_EQ(on.network.hosts, 2);
  EXPECT_THAT(on.network.ranks_on, ElementsAre(3, 5));
  EXPECT_THAT(nics_of_bindings(on), ElementsAre("eth0", "eth1", "eth0", "eth1", "eth0"));
  const Cluster cluster = on.cluster();
  ASSERT_EQ(cluster.hosts.size(), 2U);
  EXPECT_NE(cluster.hosts[0].identity, cluster.hosts[1].identity);
  EXPECT_THAT(cluster.groups_by_host(), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5, 6, 7)));
  std::vector<int> numa_nodes;
  for (const RankSpot& rank : cluster.ranks) numa_nodes.push_back(rank.numa_node);
  EXPECT_THAT(numa_nodes, ElementsAre(0, 1, 0, 0, 1, 0, 1, 0));
}

TEST(VirtualCluster, HasARankPerSocket_UnlessToldOtherwise) {
  EXPECT_EQ(virtual_cluster_from("epyc-2sx4").network.ranks(), 8);
  EXPECT_EQ(virtual_cluster_from("epyc-2s:4+4+4").network.ranks(), 12);
  EXPECT_THAT(virtual_cluster_from("epyc-2s:4+4+4").network.ranks_on, IsEmpty());
  EXPECT_EQ(virtual_cluster_from(kDgx).network.ranks(), 8);
}

TEST(VirtualCluster, CallsNoNumaNodeNearer_WhereNvlinkJoinsAllGpus) {
  for (const RankSpot& spot : virtual_cluster_from("dgx-h100x2").cluster().ranks) EXPECT_EQ(spot.numa_node, -1);
}

TEST(RankBindings, ShareTheNearestNics_WhereTheyAreFewer) {
  const Machine dgx = named_machine("dgx-h100");
  const std::vector<int> one_of_each_socket{2, 5};
  EXPECT_THAT(nic_numbers(bind_ranks(dgx, one_of_each_socket, 8)), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_THAT(nic_numbers(bind_ranks(dgx, {}, 8)), Each(0));
}

TEST(RankBindings, TakeTheLeastUsed_OfNicsAsNear) {
  const Machine dgx = named_machine("dgx-a100");  // two GPUs and two NICs below one PCI switch
  EXPECT_THAT(nic_numbers(bind_ranks(dgx, nics_for_ranks(dgx), 8)), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(VirtualCluster, ShowsFormAndNames_WhenItIsAskedForWrong) {
  for (const char* text : {"dgx-h100", "xeon-2s", "", "x", "dgx-h100x", "xeon-2s:3+", "dgx-h100x99999999999"}) {
    EXPECT_THAT(complaint_about_cluster(text), HasSubstr("such as dgx-h100x8")) << text;
  }
  EXPECT_THAT(complaint_about_cluster("dgx-1x4"),
              HasSubstr("'dgx-1': expected a file that can be read, or one of the machines dgx-a100"));
  EXPECT_THAT(complaint_about_cluster("dgx-h100x0"), HasSubstr("hosts 0: expected 1 at least"));
  EXPECT_EQ(complaint_about_cluster("xeon-2s:3+0"), "'xeon-2s:3+0': host 1 of 0 ranks: expected 1 at least");
  EXPECT_EQ(complaint_about_cluster("dgx-h100:8+9"), "9 ranks on a dgx-h100: expected 8 at most, one for each GPU");
  EXPECT_EQ(complaint_about_cluster("xeon-2s:113"), "113 ranks on a xeon-2s: expected 112 at most, one for each core");
}

TEST(VirtualCluster, NamesFileLineAndReason_WhenTheFileIsBroken) {
  const std::string broken = testing::TempDir() + "sinew-broken-nccl.xml";
  std::ofstream(broken) << "<system version=\"1\">\n<cpu/></system>\n";
  EXPECT_EQ(complaint_about_cluster(broken + "x2"), broken + ":2: <cpu>: expected an attribute numaid");
}

}  // namespace
}  // namespace sinew
