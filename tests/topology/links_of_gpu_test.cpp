#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/topology/catalog/named_machines.hpp>
#include <sinew/topology/devices/links_of_gpu.hpp>

#include "device_jobs.hpp"

namespace sinew::test {
namespace {

DeviceLinks first_of(const Machine& machine) { return links_of_gpu(machine, 0, nics_for_ranks(machine)); }

TEST(LinksOfGpu, AreThoseOfTheDatasheet_LessHeaders) {
  const DeviceLinks h100 = first_of(named_machine("dgx-h100"));
  EXPECT_EQ(h100.model, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(h100.compute_capability, 90);
  EXPECT_EQ(h100.nvlinks, 18);
  EXPECT_EQ(h100.nvlink_generation, 4);
  EXPECT_TRUE(h100.has_nvswitch);
  EXPECT_DOUBLE_EQ(h100.nvlink_bytes_per_s, 18 * 20.6e9);
  EXPECT_EQ(h100.nic, "mlx5_0:1");
  EXPECT_EQ(h100.nic_path, DevicePath::PciSwitch);
  EXPECT_DOUBLE_EQ(h100.nics, 1);
  EXPECT_NEAR(h100.nic_bytes_per_s, 48e9, 0.2e9);
  EXPECT_TRUE(h100.nic_keeps_order);
  const DeviceLinks b200 = first_of(named_machine("dgx-b200"));
  EXPECT_EQ(b200.compute_capability, 100);
  EXPECT_DOUBLE_EQ(b200.nvlink_bytes_per_s, 18 * 40.1e9);
}

TEST(LinksOfGpu, ReachAllOthersThroughNvSwitches_AndNotThemselves) {
  const DeviceLinks links = first_of(named_machine("dgx-a100"));
  ASSERT_EQ(links.peers.size(), 8u);
  EXPECT_EQ(links.peers[0], (DeviceLinks::Peer{DevicePath::Unknown, 0}));
  for (std::size_t peer = 1; peer < links.peers.size(); ++peer)
    EXPECT_EQ(links.peers[peer], (DeviceLinks::Peer{DevicePath::NvLink, 12})) << peer;
}

TEST(LinksOfGpu, AreTheSame_WhereTheMachineIsFromNcclsXml) {
  const Machine named = named_machine("dgx-h100");
  const Machine imported = described_machine(TOPOLOGY_DATA "/dgx_h100_nccl.xml");
  for (int gpu = 0; gpu < 8; ++gpu) {
    DeviceLinks a = links_of_gpu(named, gpu, nics_for_ranks(named));
    const DeviceLinks b = links_of_gpu(imported, gpu, nics_for_ranks(imported));
    a.model = b.model;  // the XML names none
    EXPECT_EQ(a, b) << gpu;
  }
}

/// Two GPUs and two NICs of a DGX A100 share a tree of PCI switches.
TEST(LinksOfGpu, ShareTheNicsThatAreAsNearToOthers) {
  const Machine machine = named_machine("dgx-a100");
  double nics = 0;
  double rate = 0;
  for (int gpu = 0; gpu < 8; ++gpu) {
    const DeviceLinks links = links_of_gpu(machine, gpu, nics_for_ranks(machine));
    EXPECT_EQ(links.nic_path, DevicePath::PciSwitch);
    nics += links.nics;
    rate += links.nic_bytes_per_s;
  }
  EXPECT_DOUBLE_EQ(nics, 8);
  EXPECT_NEAR(rate, 8 * 24e9, 1e9);
}

TEST(LinksOfGpu, HaveSeveralNicsOfTheirOwn_WhereThereAreMore) {
  const DeviceLinks links = first_of(named_machine("aws-p5"));
  EXPECT_DOUBLE_EQ(links.nics, 4);
  EXPECT_NEAR(links.nic_bytes_per_s, 48e9, 0.2e9);
  EXPECT_FALSE(links.nic_keeps_order) << "EFA delivers packets in any order";
  EXPECT_GT(links.nic_latency_s, first_of(named_machine("dgx-h100")).nic_latency_s);
}

TEST(LinksOfGpu, TakeTheLatencyThatTheMachineSays) {
  Machine machine = named_machine("dgx-h100");
  for (Link& link : machine.links) {
    if (link.kind == LinkKind::Network) link.latency_s = Figure::of(3e-6, "a test");
  }
  EXPECT_DOUBLE_EQ(first_of(machine).nic_latency_s, 3e-6);
}

/// A GPU of generation 4 beside a NIC that could take twice as much.
TEST(LinksOfGpu, AreLimitedByPciExpress) {
  Machine machine = named_machine("dgx-a100");
  for (Nic& nic : machine.nics) nic.bytes_per_s = Figure::of(100e9, "a test");
  EXPECT_NEAR(first_of(machine).nic_bytes_per_s, 24e9, 0.1e9);
  EXPECT_NEAR(first_of(machine).pci_bytes_per_s, 24e9, 0.1e9);
}

TEST(LinksOfGpu, SayWhatLiesBetween_WithoutNvLinks) {
  Machine machine = named_machine("dgx-h100");
  std::erase_if(machine.links, [](const Link& link) { return link.kind == LinkKind::NvLink; });
  const DeviceLinks links = first_of(machine);
  EXPECT_EQ(links.nvlink_bytes_per_s, 0);
  EXPECT_FALSE(links.has_nvswitch);
  EXPECT_EQ(links.peers[1].path, DevicePath::HostBridge);
  EXPECT_EQ(links.peers[7].path, DevicePath::Sockets);
}

TEST(LinksOfGpu, ArePossible_WithoutNicsOrPci) {
  Machine machine;
  machine.gpus = {{.name = "one"}, {.name = "other"}};
  const DeviceLinks links = links_of_gpu(machine, 1, {});
  EXPECT_EQ(links.model, "other");
  EXPECT_EQ(links.number, 1);
  EXPECT_EQ(links.pci_bytes_per_s, 0);
  EXPECT_EQ(links.nic, "");
  EXPECT_EQ(links.peers[0].path, DevicePath::Unknown);
}

}  // namespace
}  // namespace sinew::test
