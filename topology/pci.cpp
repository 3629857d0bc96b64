#include <fstream>
#include <string>

#include <fmt/format.h>

#include <sinew/topology/pci.hpp>

namespace sinew {
namespace {

constexpr unsigned kClassStorage = 0x01;
constexpr unsigned kClassNetwork = 0x02;
constexpr unsigned kClassDisplay = 0x03;
constexpr unsigned kClassAccelerator = 0x12;
constexpr unsigned kClass3dController = 0x0302;
constexpr std::uint16_t kNvidia = 0x10de;
constexpr std::uint16_t kAmd = 0x1002;

std::string address_of(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func);
}

bool is_pci_bridge(hwloc_obj_t object) {
  return object->type == HWLOC_OBJ_BRIDGE && object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI;
}

PciKind kind_of(unsigned class_id) {
  switch (class_id >> 8) {
    case kClassNetwork: return PciKind::Network;
    case kClassDisplay: return PciKind::Display;
    case kClassAccelerator: return PciKind::Accelerator;
    case kClassStorage: return PciKind::Storage;
    default: return PciKind::Other;
  }
}

std::string info(hwloc_obj_t object, const char* key) {
  const char* value = hwloc_obj_get_info_by_name(object, key);
  return value == nullptr ? "" : value;
}

/// NVIDIA's driver names its cards; for the others hwloc may have read a table of names.
std::string model_of(hwloc_obj_t object, const std::string& address) {
  std::ifstream card("/proc/driver/nvidia/gpus/" + address + "/information");
  std::string label;
  std::string model;
  if (card >> label && label == "Model:" && std::getline(card >> std::ws, model)) return model;
  const std::string vendor = info(object, "PCIVendor");
  const std::string device = info(object, "PCIDevice");
  return vendor.empty() || device.empty() ? vendor + device : vendor + " " + device;
}

/// A display that computes: a 3D controller, or a card of a maker of such; not the emulated screen of a virtual
/// machine.
bool is_gpu(const PciDevice& device, unsigned class_id) {
  return class_id == kClass3dController || device.kind == PciKind::Accelerator ||
         (device.kind == PciKind::Display && (device.vendor_id == kNvidia || device.vendor_id == kAmd));
}

void add_device(hwloc_topology_t topology, hwloc_obj_t object, Machine& machine) {
  const bool bridge = object->type == HWLOC_OBJ_BRIDGE;
  const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci = bridge ? object->attr->bridge.upstream.pci : object->attr->pcidev;
  PciDevice device;
  device.address = address_of(pci);
  device.kind = bridge ? PciKind::Bridge : kind_of(pci.class_id);
  device.vendor_id = pci.vendor_id;
  device.device_id = pci.device_id;
  device.name = model_of(object, device.address);
  device.numa_node = only_node(hwloc_get_non_io_ancestor_obj(topology, object));
  hwloc_obj_t above = object->parent;
  while (above != nullptr && !is_pci_bridge(above)) above = above->parent;
  if (above != nullptr) device.parent = address_of(above->attr->bridge.upstream.pci);
  const std::string root = device.numa_node < 0 ? "host" : fmt::format("numa:{}", device.numa_node);
  constexpr double kGigabyte = 1e9;
  machine.links.push_back(
      {LinkKind::Pci, "pci:" + device.address, device.parent.empty() ? root : "pci:" + device.parent,
       pci.linkspeed > 0 ? Figure::of(pci.linkspeed * kGigabyte, "PCI link speed and width as negotiated")
                         : Figure::unknown("the device states no link speed: it is virtual or built in"),
       Figure::unknown("not measured")});
  if (is_gpu(device, pci.class_id)) machine.gpus.push_back({device.name, device.address, device.numa_node});
  machine.pci_devices.push_back(std::move(device));
}

}  // namespace

void read_pci(hwloc_topology_t topology, Machine& machine) {
  for (const hwloc_obj_t bridge : objects_of(topology, HWLOC_OBJ_BRIDGE)) {
    if (is_pci_bridge(bridge)) add_device(topology, bridge, machine);
  }
  for (const hwloc_obj_t device : objects_of(topology, HWLOC_OBJ_PCI_DEVICE)) add_device(topology, device, machine);
}

}  // namespace sinew
