#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/base/parse_number.hpp>
#include <sinew/topology/devices/link_payload.hpp>
#include <sinew/topology/devices/links_of_gpu.hpp>
#include <sinew/topology/model/distance.hpp>
#include <sinew/topology/model/nvlink.hpp>

namespace sinew {
namespace {

/// The PCI vendor of EFA, the network adapter of AWS.
constexpr std::uint16_t kAmazon = 0x1d0f;

std::string gpu_name(std::size_t gpu) { return fmt::format("gpu:{}", gpu); }

DevicePath path_of(const Distance& distance) {
  switch (distance.between) {
    case Between::NvLink: return DevicePath::NvLink;
    case Between::Pix:
    case Between::Pxb: return DevicePath::PciSwitch;
    case Between::Phb:
    case Between::Node: return DevicePath::HostBridge;
    case Between::Sys: return DevicePath::Sockets;
    case Between::Nothing:
    case Between::Xgmi:
    case Between::Unknown: return DevicePath::Unknown;
  }
  return DevicePath::Unknown;
}

/// Takes the architecture, such as "sm_90", or else the generation of the NVLinks, which differs between architectures.
int compute_capability_of(const Gpu& gpu) {
  if (gpu.architecture.starts_with("sm_")) {
    if (const auto number = parse_number<int>(gpu.architecture.substr(3))) return *number;
  }
  switch (gpu.nvlink_generation) {
    case 1: return 60;
    case 2: return 70;
    case 3: return 80;
    case 4: return 90;
    case 5: return 100;
    default: return 0;
  }
}

void add_nvlinks(const Machine& machine, const std::string& name, DeviceLinks& links) {
  const double payload = nvlink_of_generation(links.nvlink_generation).payload_bytes_per_s;
  for (const Link& link : machine.links) {
    const std::string& other = link.from == name ? link.to : link.from;
    if (link.kind != LinkKind::NvLink || (link.from != name && link.to != name)) continue;
    if (!other.starts_with("gpu:") && !other.starts_with("nvswitch:")) continue;
    links.has_nvswitch = links.has_nvswitch || other.starts_with("nvswitch:");
    links.nvlinks += link.width;
    links.nvlink_bytes_per_s +=
        payload > 0 ? link.width * payload : link.bytes_per_s.value.value_or(0) * kNvLinkPayloadShare;
  }
}

const PciDevice* device_at(const Machine& machine, std::string_view address) {
  const auto device = std::ranges::find(machine.pci_devices, address, &PciDevice::address);
  return device == machine.pci_devices.end() ? nullptr : &*device;
}

/// The payload of the slowest PCI Express link from a device up to the root of its tree, or to the switch `until`;
/// 0: unknown.
double pci_payload(const Machine& machine, std::string_view address) {
  double slowest = std::numeric_limits<double>::infinity();
  for (std::size_t steps = 0; !address.empty() && steps <= machine.pci_devices.size(); ++steps) {
    for (const Link& link : machine.links) {
      const bool is_up = link.kind == LinkKind::Pci && link.from.starts_with("pci:") && link.from.substr(4) == address;
      if (is_up && link.bytes_per_s.value) slowest = std::min(slowest, *link.bytes_per_s.value * kPciPayloadShare);
    }
    const PciDevice* device = device_at(machine, address);
    address = device == nullptr ? std::string_view() : std::string_view(device->parent);
  }
  return slowest == std::numeric_limits<double>::infinity() ? 0 : slowest;
}

/// A rate of 0 is unknown and limits nothing.
double slower(double a, double b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

bool is_efa(const Machine& machine, const Nic& nic) {
  const PciDevice* device = device_at(machine, nic.pci);
  return nic.driver == "efa" || (device != nullptr && device->vendor_id == kAmazon);
}

Seconds latency_of(const Machine& machine, const Nic& nic) {
  for (const Link& link : machine.links) {
    if (link.kind == LinkKind::Network && link.from == "nic:" + nic.name && link.latency_s.value)
      return *link.latency_s.value;
  }
  if (is_efa(machine, nic)) return kEfaLatency;
  return nic.rdma.device.empty() ? kSocketLatency : kRdmaLatency;
}

/// The paths from each GPU to a NIC.
std::vector<DevicePath> paths_to(const Machine& machine, const Nic& nic) {
  std::vector<DevicePath> paths;
  for (std::size_t g = 0; g < machine.gpus.size(); ++g)
    paths.push_back(path_of(distance(machine, gpu_name(g), "nic:" + nic.name)));
  return paths;
}

/// A NIC belongs to the GPUs that it is nearest to, in equal parts.
void add_nics(const Machine& machine, std::size_t gpu, std::span<const int> nics, DeviceLinks& links) {
  double rate = 0;
  for (const int n : nics) {
    const Nic& nic = machine.nics[static_cast<std::size_t>(n)];
    const std::vector<DevicePath> paths = paths_to(machine, nic);
    const DevicePath nearest = *std::ranges::min_element(paths);
    const DevicePath here = paths[gpu];
    if (links.nic.empty() || here < links.nic_path) {
      links.nic = nic.name;
      links.nic_path = here;
      links.nic_latency_s = latency_of(machine, nic);
      links.nic_keeps_order = !nic.rdma.device.empty() && !is_efa(machine, nic);
    }
    if (here != nearest) continue;
    const double part = 1.0 / static_cast<double>(std::ranges::count(paths, nearest));
    links.nics += part;
    double carries = slower(nic.bytes_per_s.value.value_or(0) * kNicPayloadShare, pci_payload(machine, nic.pci));
    if (here == DevicePath::Sockets) carries = slower(carries, kSocketsPayload);
    rate += part * carries;
  }
  links.nic_bytes_per_s = slower(rate, links.pci_bytes_per_s);
}

}  // namespace

DeviceLinks links_of_gpu(const Machine& machine, int gpu, std::span<const int> nics) {
  const auto number = static_cast<std::size_t>(gpu);
  const Gpu& here = machine.gpus[number];
  DeviceLinks links{.model = here.name,
                    .compute_capability = compute_capability_of(here),
                    .number = gpu,
                    .nvlink_generation = here.nvlink_generation};
  add_nvlinks(machine, gpu_name(number), links);
  links.pci_bytes_per_s = pci_payload(machine, here.pci);
  for (std::size_t peer = 0; peer < machine.gpus.size(); ++peer) {
    const Distance between = distance(machine, gpu_name(number), gpu_name(peer));
    links.peers.push_back({path_of(between), between.between == Between::NvLink ? between.links : 0});
  }
  if (!nics.empty()) add_nics(machine, number, nics, links);
  return links;
}

}  // namespace sinew
