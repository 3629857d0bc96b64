#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include <sinew/topology/devices/device_group.hpp>
#include <sinew/topology/devices/link_payload.hpp>
#include <sinew/topology/model/pci_rate.hpp>

namespace sinew {
namespace {

constexpr double kAssumedPci = pci_bytes_per_s(16e9, 16) * kPciPayloadShare;
constexpr double kAssumedNic = 12.5e9 * kNicPayloadShare;

using Devices = std::vector<const DeviceLinks*>;

/// The path between two devices of a host.
DeviceLinks::Peer between(const DeviceLinks& a, const DeviceLinks& b) {
  const auto number = static_cast<std::size_t>(b.number);
  return b.number >= 0 && number < a.peers.size() ? a.peers[number] : DeviceLinks::Peer{};
}

/// The rate from one device to the others of its host.
double rate_to_others(const DeviceLinks& device, const Devices& all, DevicePath farthest) {
  if (farthest != DevicePath::NvLink) {
    return farthest == DevicePath::Sockets ? std::min(device.pci_bytes_per_s, kSocketsPayload) : device.pci_bytes_per_s;
  }
  if (device.has_nvswitch || device.nvlinks == 0) return device.nvlink_bytes_per_s;
  int links = 0;
  for (const DeviceLinks* other : all) {
    if (other != &device) links += between(device, *other).nvlinks;
  }
  return device.nvlink_bytes_per_s * std::min(1.0, static_cast<double>(links) / device.nvlinks);
}

void add_host(const Devices& devices, DeviceGroup& group) {
  const auto count = static_cast<int>(devices.size());
  group.most_on_host = std::max(group.most_on_host, count);
  group.fewest_on_host = std::min(group.fewest_on_host, count);
  if (count == 1) return;
  DevicePath farthest = DevicePath::NvLink;
  bool is_shared = false;
  for (const DeviceLinks* a : devices) {
    for (const DeviceLinks* b : devices) {
      if (a == b) continue;
      is_shared = is_shared || (a->number >= 0 && a->number == b->number);
      farthest = std::max(farthest, between(*a, *b).path);
    }
  }
  for (const DeviceLinks* device : devices) {
    double rate = rate_to_others(*device, devices, farthest);
    if (rate == 0 || is_shared) group.is_assumed = true;
    if (rate == 0) rate = kAssumedPci;
    group.device_bytes_per_s = group.device_bytes_per_s == 0 ? rate : std::min(group.device_bytes_per_s, rate);
    group.has_nvswitch = group.has_nvswitch && device->has_nvswitch;
  }
  group.path = std::max(group.path, farthest);
}

void add_nics(const Devices& devices, DeviceGroup& group) {
  double nics = 0;
  double rate = 0;
  for (const DeviceLinks* device : devices) {
    nics += device->nics;
    rate += device->nic_bytes_per_s;
    group.nic_path = std::max(group.nic_path, device->nic_path);
    group.nic_latency_s = std::max(group.nic_latency_s, device->nic_latency_s);
    group.nic_keeps_order = group.nic_keeps_order && device->nic_keeps_order;
  }
  if (rate == 0) group.is_assumed = true;
  if (rate == 0) rate = static_cast<double>(devices.size()) * kAssumedNic;
  if (nics == 0) nics = 1;
  const double own = rate / static_cast<double>(devices.size());
  group.nics = group.nics == 0 ? nics : std::min(group.nics, nics);
  group.host_bytes_per_s = group.host_bytes_per_s == 0 ? rate : std::min(group.host_bytes_per_s, rate);
  group.nic_bytes_per_s = group.nic_bytes_per_s == 0 ? own : std::min(group.nic_bytes_per_s, own);
}

}  // namespace

DeviceGroup device_group(std::span<const DeviceLinks> devices) {
  std::map<int, Devices> hosts;
  for (const DeviceLinks& device : devices) hosts[device.host].push_back(&device);
  DeviceGroup group{.ranks = static_cast<int>(devices.size()),
                    .hosts = static_cast<int>(hosts.size()),
                    .fewest_on_host = std::numeric_limits<int>::max(),
                    .compute_capability = std::numeric_limits<int>::max(),
                    .path = DevicePath::NvLink,
                    .has_nvswitch = true,
                    .nic_path = DevicePath::NvLink};
  for (const auto& [host, here] : hosts) {
    add_host(here, group);
    if (hosts.size() > 1) add_nics(here, group);
  }
  for (const DeviceLinks& device : devices)
    group.compute_capability = std::min(group.compute_capability, device.compute_capability);
  group.has_nvswitch = group.has_nvswitch && group.most_on_host > 1;
  if (group.most_on_host == 1) group.path = DevicePath::Unknown;
  if (group.hosts == 1) group.nic_path = DevicePath::Unknown;
  if (group.hosts > 1 && group.nic_latency_s == 0) group.nic_latency_s = kRdmaLatency;
  return group;
}

}  // namespace sinew
