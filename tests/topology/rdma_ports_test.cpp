#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/topology/discover/network_interfaces.hpp>

#include "recorded_root.hpp"

namespace sinew {
namespace {

using test::RecordedRoot;

class RdmaPorts : public testing::Test {
 protected:
  Nic port(const std::string& name) const {
    for (const Nic& nic : read_rdma_ports(dgx_.sys())) {
      if (nic.name == name) return nic;
    }
    ADD_FAILURE() << "no port " << name;
    return {};
  }

  const RecordedRoot dgx_{TOPOLOGY_DATA "/dgx_h100.sysfs"};
};

TEST_F(RdmaPorts, OfADgxH100AreEightRails_EachWhereTheUserGuideSays) {
  struct Expected {
    const char* name;
    const char* pci;
    int numa_node;
  };
  for (const Expected& e : {Expected{"mlx5_0:1", "0000:18:00.0", 0},
                            {"mlx5_3:1", "0000:40:00.0", 0},
                            {"mlx5_4:1", "0000:4f:00.0", 0},
                            {"mlx5_5:1", "0000:5e:00.0", 0},
                            {"mlx5_6:1", "0000:9a:00.0", 1},
                            {"mlx5_9:1", "0000:c0:00.0", 1},
                            {"mlx5_10:1", "0000:ce:00.0", 1},
                            {"mlx5_11:1", "0000:dc:00.0", 1}}) {
    const Nic nic = port(e.name);
    EXPECT_EQ(nic.pci, e.pci) << e.name;
    EXPECT_EQ(nic.numa_node, e.numa_node) << e.name;
    EXPECT_EQ(nic.kind, NicKind::InfiniBand) << e.name;
    EXPECT_EQ(nic.driver, "mlx5_core") << e.name;
  }
}

TEST_F(RdmaPorts, HaveStateRateAndGid) {
  const Nic nic = port("mlx5_4:1");
  EXPECT_EQ(nic.rdma, (RdmaPort{"mlx5_4", 1, RdmaState::Active, "fe80:0000:0000:0000:b83f:d203:004f:0000"}));
  EXPECT_EQ(nic.bytes_per_s.value, 50e9);
  EXPECT_EQ(nic.bytes_per_s.source, (dgx_.sys() / "class/infiniband/mlx5_4/ports/1/rate").string());
  EXPECT_TRUE(nic.up && nic.running);
}

TEST_F(RdmaPorts, DoNotRun_UntilTheyAreActive) {
  dgx_.write("sys/class/infiniband/mlx5_10/ports/1/state", "2: INIT");
  dgx_.write("sys/class/infiniband/mlx5_11/ports/1/state", "1: DOWN");
  dgx_.write("sys/class/infiniband/mlx5_11/ports/1/gids/0", "0000:0000:0000:0000:0000:0000:0000:0000");
  const Nic waits = port("mlx5_10:1");
  EXPECT_EQ(waits.rdma.state, RdmaState::Init);
  EXPECT_TRUE(waits.up);
  EXPECT_FALSE(waits.running);
  const Nic down = port("mlx5_11:1");
  EXPECT_EQ(down.rdma.state, RdmaState::Down);
  EXPECT_FALSE(down.up || down.running);
  EXPECT_EQ(down.rdma.gid, "") << "all zero is none";
}

TEST_F(RdmaPorts, OfOneCardMayDiffer) {
  EXPECT_EQ(port("mlx5_1:1").kind, NicKind::InfiniBand);
  EXPECT_EQ(port("mlx5_1:1").bytes_per_s.value, 25e9);
  EXPECT_EQ(port("mlx5_1:2").kind, NicKind::RoCE);
  EXPECT_EQ(port("mlx5_1:2").bytes_per_s.value, 12.5e9);
  EXPECT_EQ(read_rdma_ports(dgx_.sys()).size(), 10u);
}

TEST_F(RdmaPorts, GiveTheirInterfaceWhatItDoesNotSayItself) {
  Nic nic{.name = "ens1f1np1", .hardware_address = "b8:3f:d2:29:00:01"};
  add_sysfs_facts(nic, dgx_.sys());
  EXPECT_EQ(nic.kind, NicKind::RoCE);
  EXPECT_EQ(nic.rdma, (RdmaPort{"mlx5_1", 2, RdmaState::Active, "fe80:0000:0000:0000:ba3f:d2ff:fe29:0001"}));
  EXPECT_EQ(nic.bytes_per_s.value, 12.5e9) << nic.bytes_per_s.source;
  EXPECT_EQ(nic.pci, "0000:29:00.0");
}

TEST(RdmaPortsNone, AreNone_WhereTheFolderIsNot) { EXPECT_TRUE(read_rdma_ports("/nonexistent").empty()); }

}  // namespace
}  // namespace sinew
