#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/topology/catalog/named_machines.hpp>
#include <sinew/topology/format/text/text.hpp>
#include <sinew/topology/model/distance.hpp>

namespace sinew {
namespace {

using testing::HasSubstr;

PciDevice device(std::string address, PciKind kind, std::string parent, int node, std::string root) {
  return {std::move(address), kind, 0, 0, "", std::move(parent), node, std::move(root)};
}

/// The ports that the kernel lists: below root port 10:01.0 a switch (11 above 12:00.0, 12:01.0, 12:02.0) with a GPU, a
/// NIC and another switch (15 above 16:00.0) that has a second NIC; a third NIC on a root port of its own, a fourth
/// behind another host bridge of node 0, a fifth on node 1, a sixth that nobody knows the place of.
Machine with_ports() {
  Machine m;
  m.numa_nodes = {{0, 0, 1, {}}, {1, 1, 1, {}}};
  const PciKind bridge = PciKind::Bridge;
  const PciKind network = PciKind::Network;
  m.pci_devices = {device("0000:10:01.0", bridge, "", 0, "0000:10"),
                   device("0000:11:00.0", bridge, "0000:10:01.0", 0, "0000:10"),
                   device("0000:12:00.0", bridge, "0000:11:00.0", 0, "0000:10"),
                   device("0000:12:01.0", bridge, "0000:11:00.0", 0, "0000:10"),
                   device("0000:12:02.0", bridge, "0000:11:00.0", 0, "0000:10"),
                   device("0000:13:00.0", PciKind::Display, "0000:12:00.0", 0, "0000:10"),
                   device("0000:14:00.0", network, "0000:12:01.0", 0, "0000:10"),
                   device("0000:14:00.1", network, "0000:12:01.0", 0, "0000:10"),
                   device("0000:15:00.0", bridge, "0000:12:02.0", 0, "0000:10"),
                   device("0000:16:00.0", bridge, "0000:15:00.0", 0, "0000:10"),
                   device("0000:17:00.0", network, "0000:16:00.0", 0, "0000:10"),
                   device("0000:10:02.0", bridge, "", 0, "0000:10"),
                   device("0000:18:00.0", network, "0000:10:02.0", 0, "0000:10"),
                   device("0000:20:00.0", network, "", 0, "0000:20"),
                   device("0000:80:00.0", network, "", 1, "0000:80")};
  m.gpus = {{"a GPU", "0000:13:00.0", 0}};
  const auto nic = [&](std::string name, std::string pci, int node) {
    m.nics.push_back({.name = std::move(name), .pci = std::move(pci), .numa_node = node});
  };
  nic("near", "0000:14:00.0", 0);
  nic("near2", "0000:14:00.1", 0);
  nic("nested", "0000:17:00.0", 0);
  nic("port", "0000:18:00.0", 0);
  nic("bridge", "0000:20:00.0", 0);
  nic("far", "0000:80:00.0", 1);
  nic("nowhere", "", -1);
  return m;
}

std::string between(const Machine& machine, std::string_view a, std::string_view b) {
  const std::string there = to_text(distance(machine, a, b));
  EXPECT_EQ(there, to_text(distance(machine, b, a))) << a << " " << b;
  return there;
}

TEST(Distance, IsNamedAsNvidiaSmiDoes_WhereTheKernelListsEveryPort) {
  const Machine m = with_ports();
  EXPECT_EQ(between(m, "gpu:0", "gpu:0"), "X");
  EXPECT_EQ(between(m, "gpu:0", "nic:near"), "PIX");
  EXPECT_EQ(between(m, "nic:near", "nic:near2"), "PIX");
  EXPECT_EQ(between(m, "gpu:0", "nic:nested"), "PXB");
  EXPECT_EQ(between(m, "gpu:0", "nic:port"), "PHB");
  EXPECT_EQ(between(m, "gpu:0", "nic:bridge"), "NODE");
  EXPECT_EQ(between(m, "gpu:0", "nic:far"), "SYS");
  EXPECT_EQ(between(m, "gpu:0", "nic:nowhere"), "?");
  EXPECT_EQ(between(m, "gpu:0", "pci:0000:14:00.0"), "PIX");
}

TEST(Distance, OfANumaNodeIsPhbToItsOwnAndSysToTheOthers) {
  const Machine m = with_ports();
  EXPECT_EQ(between(m, "numa:0", "nic:near"), "PHB");
  EXPECT_EQ(between(m, "numa:0", "nic:far"), "SYS");
  EXPECT_EQ(between(m, "numa:1", "nic:far"), "PHB");
  EXPECT_EQ(between(m, "numa:1", "numa:0"), "SYS");
}

TEST(Distance, TakesEverythingForNear_WhereThereIsOneNumaNode) {
  Machine m = with_ports();
  m.numa_nodes.pop_back();
  EXPECT_EQ(between(m, "gpu:0", "nic:far"), "NODE");
  EXPECT_EQ(between(m, "numa:0", "nic:far"), "PHB");
}

TEST(Distance, CountsNvLinks_DirectAndThroughSwitches) {
  Machine m;
  m.numa_nodes = {{0, 0, 1, {}}};
  m.gpus.resize(4);
  m.nvswitches.resize(2);
  const auto link = [&](std::string a, std::string b, int width) {
    m.links.push_back({LinkKind::NvLink, std::move(a), std::move(b), {}, {}, width});
  };
  link("gpu:0", "gpu:1", 4);
  link("gpu:0", "nvswitch:0", 3);
  link("gpu:0", "nvswitch:1", 3);
  link("gpu:2", "nvswitch:0", 5);
  EXPECT_EQ(between(m, "gpu:0", "gpu:1"), "NV4");
  EXPECT_EQ(between(m, "gpu:0", "gpu:2"), "NV5");
  EXPECT_EQ(between(m, "gpu:0", "gpu:3"), "PHB");
  EXPECT_EQ(between(m, "gpu:1", "gpu:2"), "PHB");
}

/// The table that the DGX A100 User Guide and public nvidia-smi listings show: NV12 everywhere, PXB to the two NICs of
/// the same pair, SYS to all others, as every pair is on a NUMA node of its own.
TEST(Distance, OnADgxA100IsWhatItsListingsShow) {
  const Machine m = named_machine("dgx-a100");
  ASSERT_EQ(m.gpus.size(), 8u);
  ASSERT_EQ(m.nics.size(), 8u);
  for (std::size_t g = 0; g < 8; ++g) {
    for (std::size_t n = 0; n < 8; ++n) {
      const std::string gpu = "gpu:" + std::to_string(g);
      EXPECT_EQ(between(m, gpu, "nic:" + m.nics[n].name), g / 2 == n / 2 ? "PXB" : "SYS") << g << " " << n;
      EXPECT_EQ(between(m, gpu, "gpu:" + std::to_string(n)), g == n ? "X" : "NV12");
    }
  }
}

TEST(Distance, SaysWhatThereIs_WhenThePartIsNot) {
  const Machine m = with_ports();
  for (const char* part : {"gpu:1", "gpu:", "gpu:0x", "nic:eth9", "numa:2", "host", "", "pci:0000:99:00.0"}) {
    try {
      (void)distance(m, "gpu:0", part);
      FAIL() << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::InvalidArgument);
      EXPECT_THAT(error.what(), testing::StartsWith(fmt::format("'{}': expected a part of this machine", part)));
      EXPECT_THAT(error.what(), HasSubstr("it has 1 GPUs, 7 network interfaces, 2 NUMA nodes and 15 PCI devices"));
    }
  }
}

TEST(Distance, IsATableInTheText_WhenThereIsSomethingToCompare) {
  Machine m = with_ports();
  m.nics.erase(m.nics.begin() + 1, m.nics.begin() + 4);
  EXPECT_THAT(to_text(m), HasSubstr("└─ distances\n"
                                    "   ├─           GPU0    near  bridge     far   NUMA0   NUMA1\n"
                                    "   ├─ GPU0         X     PIX    NODE     SYS     PHB     SYS\n"));
  m.gpus.clear();
  EXPECT_THAT(to_text(m), HasSubstr("distances"));
  m.nics.resize(1);
  EXPECT_THAT(to_text(m), testing::Not(HasSubstr("distances")));
}

}  // namespace
}  // namespace sinew
