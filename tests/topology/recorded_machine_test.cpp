#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/topology/catalog/named_machines.hpp>
#include <sinew/topology/cluster/nearest_nic.hpp>
#include <sinew/topology/discover.hpp>
#include <sinew/topology/format/json/json.hpp>
#include <sinew/topology/format/text/text.hpp>
#include <sinew/topology/model/distance.hpp>

#include "recorded_root.hpp"

namespace sinew {
namespace {

using testing::Contains;
using testing::Each;
using testing::Field;
using testing::HasSubstr;

/// A DGX H100 by its recorded /sys and the fakes of its NVML and libibverbs.
Machine dgx_h100(const char* nvml) {
  const test::RecordedRoot root(TOPOLOGY_DATA "/dgx_h100.sysfs");
  setenv("FAKE_NVML", nvml, 1);
  Machine machine = discover(Config{}, root.root());
  unsetenv("FAKE_NVML");
  return machine;
}

class RecordedDgxH100 : public testing::Test {
 protected:
  static const Machine& machine() {
    static const Machine read = dgx_h100("dgx-h100");
    return read;
  }
  static const Nic& nic_of(const std::string& device) {
    const auto found = std::ranges::find(machine().nics, device, [](const Nic& nic) { return nic.rdma.device; });
    if (found == machine().nics.end()) throw std::runtime_error("no NIC of " + device);
    return *found;
  }
};

/// The table of network modules in the DGX H100/H200 User Guide, by GPU.
struct Rail {
  const char* gpu;
  const char* device;
  const char* interface;
  int socket;
};
constexpr Rail kRails[] = {{"0000:1b:00.0", "mlx5_0", "ibp24s0", 0},   {"0000:43:00.0", "mlx5_3", "ibp64s0", 0},
                           {"0000:52:00.0", "mlx5_4", "ibp79s0", 0},   {"0000:61:00.0", "mlx5_5", "ibp94s0", 0},
                           {"0000:9d:00.0", "mlx5_6", "ibp154s0", 1},  {"0000:c3:00.0", "mlx5_9", "ibp192s0", 1},
                           {"0000:d1:00.0", "mlx5_10", "ibp206s0", 1}, {"0000:df:00.0", "mlx5_11", "ibp220s0", 1}};

TEST_F(RecordedDgxH100, HasItsOwnNamesAndProcessors) {
  const Machine& m = machine();
  EXPECT_EQ(m.host_name, "dgx-h100");
  EXPECT_EQ(m.identity, "recorded:dgx-h100");
  EXPECT_EQ(m.system, "Linux 6.5.0");
  EXPECT_EQ(m.architecture, "x86_64");
  ASSERT_EQ(m.packages.size(), 2u);
  EXPECT_THAT(m.packages, Each(Field(&Package::model, "Intel(R) Xeon(R) Platinum 8480C")));
  EXPECT_EQ(m.packages[1].cores, (std::vector{2, 3}));
  EXPECT_EQ(m.usable_cores, 4);
  ASSERT_EQ(m.numa_nodes.size(), 2u);
  EXPECT_THAT(m.numa_nodes, Each(Field(&NumaNode::memory_bytes, 1ull << 40)));
  EXPECT_EQ(m.memory_bytes, 2ull << 40);
  ASSERT_FALSE(m.caches.empty());
  EXPECT_EQ(m.caches.front().bytes, 105ull << 20);
  EXPECT_EQ(m.caches.front().cores, (std::vector{0, 1}));
}

TEST_F(RecordedDgxH100, HasEightGpusOnFourNvSwitches_ThatMayUseEachOthersMemory) {
  const Machine& m = machine();
  ASSERT_EQ(m.gpus.size(), 8u);
  EXPECT_EQ(m.nvswitches.size(), 4u);
  EXPECT_EQ(m.gpu_peers.size(), 8u * 7);
  EXPECT_THAT(m.gpu_peers, Each(Field(&GpuPeer::nvlink, PeerStatus::Ok)));
  for (std::size_t g = 0; g < 8; ++g) {
    EXPECT_EQ(m.gpus[g].pci, kRails[g].gpu);
    EXPECT_EQ(m.gpus[g].numa_node, kRails[g].socket);
    EXPECT_EQ(m.gpus[g].name, "NVIDIA H100 80GB HBM3");
    for (std::size_t other = 0; other < 8; ++other) {
      EXPECT_EQ(to_text(distance(m, "gpu:" + std::to_string(g), "gpu:" + std::to_string(other))),
                g == other ? "X" : "NV18");
    }
  }
}

TEST_F(RecordedDgxH100, HasEightRailsUp) {
  std::size_t rails = 0;
  for (const Nic& nic : machine().nics) rails += nic.kind == NicKind::InfiniBand && nic.bytes_per_s.value == 50e9;
  EXPECT_EQ(rails, 8u);
  for (const Rail& rail : kRails) {
    const Nic& nic = nic_of(rail.device);
    EXPECT_EQ(nic.name, rail.interface);
    EXPECT_TRUE(nic.up && nic.running) << rail.device;
    EXPECT_EQ(nic.rdma.state, RdmaState::Active) << rail.device;
    EXPECT_EQ(nic.rdma.mtu_bytes, 4096u) << rail.device;
    EXPECT_EQ(nic.numa_node, rail.socket) << rail.device;
    EXPECT_EQ(nic.driver, "mlx5_core") << rail.device;
  }
}

TEST_F(RecordedDgxH100, HasEveryGpuBesideItsNic) {
  for (std::size_t g = 0; g < std::size(kRails); ++g) {
    for (const Rail& rail : kRails) {
      const bool own = &rail == &kRails[g];
      const bool same_socket = rail.socket == kRails[g].socket;
      EXPECT_EQ(to_text(distance(machine(), "gpu:" + std::to_string(g), "nic:" + nic_of(rail.device).name)),
                own           ? "PIX"
                : same_socket ? "NODE"
                              : "SYS")
          << g << " " << rail.device;
    }
    for (int node = 0; node < 2; ++node) {
      const std::string numa = "numa:" + std::to_string(node);
      EXPECT_EQ(to_text(distance(machine(), numa, "nic:" + nic_of(kRails[g].device).name)),
                node == kRails[g].socket ? "PHB" : "SYS");
    }
  }
}

std::vector<std::string> nics_of_gpus(const Machine& m) {
  const std::vector<int> nics = nics_for_ranks(m);
  NicAssigner assigner(m);
  std::vector<std::string> names;
  for (std::size_t g = 0; g < m.gpus.size(); ++g) {
    const std::vector<std::string> part{"gpu:" + std::to_string(g)};
    names.push_back(m.nics.at(static_cast<std::size_t>(assigner.assign(part, nics).nic)).name);
  }
  return names;
}

/// Not the ports for storage, which are slower.
TEST_F(RecordedDgxH100, GivesEachGpuTheNicBesideIt) {
  const std::vector<std::string> names = nics_of_gpus(machine());
  ASSERT_EQ(names.size(), std::size(kRails));
  for (std::size_t g = 0; g < names.size(); ++g) EXPECT_EQ(names[g], kRails[g].interface);
}

TEST_F(RecordedDgxH100, LeavesOutPortsThatAreDown) {
  const test::RecordedRoot root(TOPOLOGY_DATA "/dgx_h100.sysfs");
  root.write("sys/class/infiniband/mlx5_4/ports/1/state", "1: DOWN");
  root.write("sys/class/net/ibp79s0/carrier", "0");
  setenv("FAKE_NVML", "dgx-h100", 1);
  const std::vector<std::string> names = nics_of_gpus(discover(Config{}, root.root()));
  unsetenv("FAKE_NVML");
  ASSERT_EQ(names.size(), std::size(kRails));
  EXPECT_THAT(names[2], testing::AnyOf("ibp24s0", "ibp64s0", "ibp94s0")) << "another of its socket";
  for (const std::size_t g : {0, 1, 3, 4, 5, 6, 7}) EXPECT_EQ(names[g], kRails[g].interface);
}

/// Code and recording were written apart.
TEST_F(RecordedDgxH100, AgreesWithTheMachineOfThatName) {
  const Machine named = named_machine("dgx-h100");
  for (const Nic& nic : named.nics) {
    const Nic& recorded = nic_of(nic.rdma.device);
    EXPECT_EQ(recorded.pci, nic.pci);
    EXPECT_EQ(recorded.bytes_per_s.value, nic.bytes_per_s.value);
    for (std::size_t g = 0; g < named.gpus.size(); ++g) {
      const std::string gpu = "gpu:" + std::to_string(g);
      EXPECT_EQ(distance(machine(), gpu, "nic:" + recorded.name), distance(named, gpu, "nic:" + nic.name));
    }
  }
}

TEST_F(RecordedDgxH100, SaysWhereEveryNumberIsFrom) {
  for (const Link& link : machine().links) {
    EXPECT_FALSE(link.bytes_per_s.source.empty()) << link.from;
    EXPECT_FALSE(link.latency_s.source.empty()) << link.from;
  }
  const auto of_gpu = std::ranges::find(machine().links, "pci:0000:1b:00.0", &Link::from);
  ASSERT_NE(of_gpu, machine().links.end());
  EXPECT_EQ(of_gpu->to, "pci:0000:17:02.0");
  EXPECT_NEAR(of_gpu->bytes_per_s.value.value_or(0), 32e9 * 16 / 8 * 128 / 130, 1e4) << "PCI Express 5.0 x16";
  EXPECT_EQ(of_gpu->bytes_per_s.source, "PCI link speed and width as negotiated");
  const auto of_nic = std::ranges::find(machine().links, "nic:ibp24s0", &Link::from);
  ASSERT_NE(of_nic, machine().links.end());
  EXPECT_THAT(of_nic->bytes_per_s.source, testing::EndsWith("/sys/class/net/ibp24s0/speed"));
}

TEST_F(RecordedDgxH100, SaysWhatARecordingDoesNotHold) {
  EXPECT_THAT(machine().unseen,
              testing::ElementsAre(Unseen{"addresses of network interfaces", "/sys does not hold them"}));
  EXPECT_EQ(std::ranges::count(machine().nics, true, &Nic::loopback), 1);
  EXPECT_EQ(std::ranges::count(machine().nics, NicKind::RoCE, &Nic::kind), 1);
  EXPECT_EQ(machine().nics.size(), 11u) << "eight rails, two ports of mlx5_1, lo";
}

TEST_F(RecordedDgxH100, ComesBackFromJson_AndIsShown) {
  EXPECT_EQ(machine_from_json(to_json(machine())), machine());
  EXPECT_THAT(to_text(machine()), HasSubstr("RDMA port mlx5_0:1 (active, GID fe80:0000:0000:0000:b83f:d203:0018:0000, "
                                            "MTU 4096 bytes)"));
}

TEST(RecordedDgxH100Alone, ShowsItsGpusByPci_WhenNvmlRefuses) {
  const Machine m = dgx_h100("refused");
  ASSERT_EQ(m.gpus.size(), 8u);
  EXPECT_TRUE(m.gpu_peers.empty());
  EXPECT_TRUE(m.nvswitches.empty());
  EXPECT_EQ(to_text(distance(m, "gpu:7", "nic:ibp220s0")), "PIX");
  EXPECT_EQ(to_text(distance(m, "gpu:0", "gpu:7")), "SYS");
  EXPECT_THAT(m.unseen, Contains(Unseen{"NVLinks, peer access, memory, UUID and MIG of the GPUs",
                                        "nvmlInit_v2: Driver Not Loaded"}));
}

}  // namespace
}  // namespace sinew
