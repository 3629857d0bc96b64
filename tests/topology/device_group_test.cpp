#include <vector>

#include <gtest/gtest.h>

#include <sinew/topology/catalog/named_machines.hpp>
#include <sinew/topology/devices/device_group.hpp>

#include "device_jobs.hpp"

namespace sinew::test {
namespace {

TEST(DeviceGroup, CountsHostsAndTheirDevices) {
  const DeviceGroup group = group_on("dgx-h100", 4);
  EXPECT_EQ(group.ranks, 32);
  EXPECT_EQ(group.hosts, 4);
  EXPECT_EQ(group.most_on_host, 8);
  EXPECT_EQ(group.fewest_on_host, 8);
  EXPECT_EQ(group.compute_capability, 90);
  EXPECT_EQ(group.path, DevicePath::NvLink);
  EXPECT_TRUE(group.has_nvswitch);
  EXPECT_DOUBLE_EQ(group.device_bytes_per_s, 18 * 20.6e9);
  EXPECT_DOUBLE_EQ(group.nics, 8);
  EXPECT_NEAR(group.host_bytes_per_s, 8 * 48e9, 1e9);
  EXPECT_NEAR(group.nic_bytes_per_s, 48e9, 0.2e9);
  EXPECT_FALSE(group.is_assumed);
}

TEST(DeviceGroup, HasNoNetwork_OnOneHost) {
  const DeviceGroup group = group_on("dgx-h100", 1);
  EXPECT_EQ(group.host_bytes_per_s, 0);
  EXPECT_EQ(group.nics, 0);
  EXPECT_EQ(group.nic_path, DevicePath::Unknown);
}

TEST(DeviceGroup, HasNothingBetweenDevices_OfOneDeviceOnEachHost) {
  const DeviceGroup group = group_on("dgx-h100", 4, 1);
  EXPECT_EQ(group.device_bytes_per_s, 0);
  EXPECT_EQ(group.path, DevicePath::Unknown);
  EXPECT_FALSE(group.has_nvswitch);
  EXPECT_NEAR(group.host_bytes_per_s, 48e9, 0.2e9);
}

TEST(DeviceGroup, IsAsSlowAsItsSlowestHost) {
  std::vector<DeviceLinks> devices = devices_on(named_machine("dgx-h100"), 1, 8);
  for (DeviceLinks& slow : devices_on(named_machine("dgx-a100"), 1, 8)) {
    slow.host = 1;
    devices.push_back(slow);
  }
  const DeviceGroup group = device_group(devices);
  EXPECT_DOUBLE_EQ(group.device_bytes_per_s, 12 * 20e9);
  EXPECT_NEAR(group.host_bytes_per_s, 8 * 24e9, 1e9);
  EXPECT_EQ(group.compute_capability, 80);
}

/// Four GPUs, each with four NVLinks to each other one: two of them have a third of their links between them.
TEST(DeviceGroup, CountsTheNvLinksAmongItsOwn_WithoutNvSwitches) {
  std::vector<DeviceLinks> devices;
  for (int number = 0; number < 4; ++number) {
    DeviceLinks links{.number = number, .nvlinks = 12, .nvlink_bytes_per_s = 240e9};
    links.peers.assign(4, {DevicePath::NvLink, 4});
    links.peers[static_cast<std::size_t>(number)] = {};
    devices.push_back(links);
  }
  EXPECT_DOUBLE_EQ(device_group(devices).device_bytes_per_s, 240e9);
  devices.resize(2);
  EXPECT_DOUBLE_EQ(device_group(devices).device_bytes_per_s, 80e9);
}

TEST(DeviceGroup, TakesTheFarthestPath_WhereNotAllHaveNvLinks) {
  std::vector<DeviceLinks> devices;
  for (int number = 0; number < 3; ++number) {
    DeviceLinks links{.number = number, .nvlinks = 4, .nvlink_bytes_per_s = 80e9, .pci_bytes_per_s = 24e9};
    links.peers.assign(3, {DevicePath::NvLink, 4});
    links.peers[static_cast<std::size_t>(number)] = {};
    devices.push_back(links);
  }
  devices[2].peers[0] = devices[0].peers[2] = {DevicePath::HostBridge, 0};
  const DeviceGroup group = device_group(devices);
  EXPECT_EQ(group.path, DevicePath::HostBridge);
  EXPECT_DOUBLE_EQ(group.device_bytes_per_s, 24e9);
}

TEST(DeviceGroup, SaysThatItAssumes_WhereLinksAreUnknown) {
  std::vector<DeviceLinks> devices(2);
  EXPECT_TRUE(device_group(devices).is_assumed);
  EXPECT_GT(device_group(devices).device_bytes_per_s, 0);
  devices[1].host = 1;
  EXPECT_TRUE(device_group(devices).is_assumed);
  EXPECT_GT(device_group(devices).host_bytes_per_s, 0);
}

}  // namespace
}  // namespace sinew::test
