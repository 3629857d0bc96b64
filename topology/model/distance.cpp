#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/error.hpp>
#include <sinew/topology/model/distance.hpp>

namespace sinew {
namespace {

/// Where a part hangs.
struct PartPlace {
  std::string pci;     ///< empty: not on PCI
  int numa_node = -1;  ///< -1: unknown
};

template <class T>
const T* at_number(const std::vector<T>& all, std::string_view number) {
  const auto index = parse_number<std::size_t>(number);
  return index && *index < all.size() ? &all[*index] : nullptr;
}

PartPlace place_of(const Machine& machine, std::string_view part) {
  const std::size_t colon = std::min(part.find(':'), part.size());
  const std::string_view kind = part.substr(0, colon);
  const std::string_view name = part.substr(std::min(colon + 1, part.size()));
  if (kind == "gpu") {
    if (const Gpu* gpu = at_number(machine.gpus, name)) return {gpu->pci, gpu->numa_node};
  } else if (kind == "nic") {
    const auto nic = std::ranges::find(machine.nics, name, &Nic::name);
    if (nic != machine.nics.end()) return {nic->pci, nic->numa_node};
  } else if (kind == "pci") {
    const auto device = std::ranges::find(machine.pci_devices, name, &PciDevice::address);
    if (device != machine.pci_devices.end()) return {device->address, device->numa_node};
  } else if (kind == "numa") {
    for (const NumaNode& node : machine.numa_nodes) {
      if (std::to_string(node.id) == name) return {"", node.id};
    }
  }
  throw Error(Code::InvalidArgument,
              fmt::format("'{}': expected a part of this machine, such as gpu:0, nic:eth0, numa:0 or pci:0000:3b:00.0; "
                          "it has {} GPUs, {} network interfaces, {} NUMA nodes and {} PCI devices",
                          part, machine.gpus.size(), machine.nics.size(), machine.numa_nodes.size(),
                          machine.pci_devices.size()));
}

/// The device, the bridge above it, and so on to the host bridge.
std::vector<const PciDevice*> way_up(const Machine& machine, std::string_view address) {
  std::vector<const PciDevice*> way;
  while (!address.empty() && way.size() <= machine.pci_devices.size()) {
    const auto device = std::ranges::find(machine.pci_devices, address, &PciDevice::address);
    if (device == machine.pci_devices.end()) break;
    way.push_back(&*device);
    address = device->parent;
  }
  return way;
}

/// Ports of switches on the way, the ends left out. A whole Switch is both of its ports.
int ports_between(const std::vector<const PciDevice*>& way, const PciDevice* end) {
  int ports = 0;
  for (std::size_t i = 1; i < way.size() && way[i] != end; ++i) ports += way[i]->kind == PciKind::Switch ? 2 : 1;
  return ports;
}

/// Below the switch where two ways meet lies one port of it on each side.
Between below_one_host_bridge(const std::vector<const PciDevice*>& a, const std::vector<const PciDevice*>& b,
                              const PciDevice* meeting) {
  const int ports = std::max(ports_between(a, meeting), ports_between(b, meeting));
  return ports <= 1 ? Between::Pix : Between::Pxb;
}

/// Some switch of one way is joined to one of the other, beside the tree.
bool are_joined(const Machine& machine, const std::vector<const PciDevice*>& a,
                const std::vector<const PciDevice*>& b) {
  const auto passes = [](const std::vector<const PciDevice*>& way, std::string_view part) {
    return part.starts_with("pci:") && std::ranges::find(way, part.substr(4), &PciDevice::address) != way.end();
  };
  return std::ranges::any_of(machine.links, [&](const Link& link) {
    return link.kind == LinkKind::Pci &&
           ((passes(a, link.from) && passes(b, link.to)) || (passes(b, link.from) && passes(a, link.to)));
  });
}

/// The root of the topmost bridge stands for all below it.
std::string_view root_of(const std::vector<const PciDevice*>& way) {
  return way.empty() ? std::string_view() : std::string_view(way.back()->root);
}

Between by_place(const Machine& machine, PartPlace a, PartPlace b) {
  const auto way_a = way_up(machine, a.pci);
  const auto way_b = way_up(machine, b.pci);
  const auto meeting = std::ranges::find_first_of(way_a, way_b);
  if (meeting != way_a.end()) return below_one_host_bridge(way_a, way_b, *meeting);
  if (!a.pci.empty() && a.pci == b.pci) return Between::Pix;
  if (are_joined(machine, way_a, way_b)) return Between::Pxb;
  const bool both_roots = !root_of(way_a).empty() && !root_of(way_b).empty();
  if (both_roots && root_of(way_a) == root_of(way_b)) return Between::Phb;
  if (machine.numa_nodes.size() == 1) a.numa_node = b.numa_node = machine.numa_nodes.front().id;
  if (a.numa_node < 0 || b.numa_node < 0) return Between::Unknown;
  if (a.numa_node != b.numa_node) return Between::Sys;
  return both_roots ? Between::Node : Between::Phb;
}

/// NVLinks of `gpu` to parts whose names start so.
int nvlinks_to(const Machine& machine, std::string_view gpu, std::string_view other) {
  int links = 0;
  for (const Link& link : machine.links) {
    if (link.kind != LinkKind::NvLink) continue;
    if ((link.from == gpu && link.to.starts_with(other)) || (link.to == gpu && link.from.starts_with(other)))
      links += link.width;
  }
  return links;
}

Distance by_gpu_links(const Machine& machine, std::string_view a, std::string_view b) {
  for (const Link& link : machine.links) {
    const bool joins = (link.from == a && link.to == b) || (link.from == b && link.to == a);
    if (link.kind == LinkKind::NvLink && joins) return {Between::NvLink, link.width};
    if (link.kind == LinkKind::Xgmi && joins) return {Between::Xgmi, link.width};
  }
  return {Between::NvLink, std::min(nvlinks_to(machine, a, "nvswitch:"), nvlinks_to(machine, b, "nvswitch:"))};
}

}  // namespace

std::string to_text(const Distance& distance) {
  switch (distance.between) {
    case Between::Nothing: return "X";
    case Between::NvLink: return fmt::format("NV{}", distance.links);
    case Between::Xgmi: return fmt::format("XGMI{}", distance.links);
    case Between::Pix: return "PIX";
    case Between::Pxb: return "PXB";
    case Between::Phb: return "PHB";
    case Between::Node: return "NODE";
    case Between::Sys: return "SYS";
    case Between::Unknown: return "?";
  }
  return {};
}

Distance distance(const Machine& machine, std::string_view from, std::string_view to) {
  const PartPlace a = place_of(machine, from);
  const PartPlace b = place_of(machine, to);
  if (from == to) return {Between::Nothing};
  if (const Distance direct = by_gpu_links(machine, from, to); direct.links > 0) return direct;
  return {by_place(machine, a, b)};
}

}  // namespace sinew
