#include <fstream>
#include <string>

#include <fmt/format.h>

#include <sinew/topology/discover/pci.hpp>
#include <sinew/topology/model/pci_kind.hpp>

namespace sinew {
namespace {

bool is_pci_bridge(hwloc_obj_t object) {
  return object->type == HWLOC_OBJ_BRIDGE && object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI;
}

/// "0000:3a" of the host bridge above; empty where hwloc shows none.
std::string root_of(hwloc_obj_t object) {
  while (object != nullptr && (object->type != HWLOC_OBJ_BRIDGE || is_pci_bridge(object))) object = object->parent;
  if (object == nullptr) return {};
  const auto& below = object->attr->bridge.downstream.pci;
  return fmt::format("{:04x}:{:02x}", below.domain, below.secondary_bus);
}

std::string info(hwloc_obj_t object, const char* key) {
  const char* value = hwloc_obj_get_info_by_name(object, key);
  return value == nullptr ? "" : value;
}

std::string name_in_table(hwloc_obj_t object) {
  const std::string vendor = info(object, "PCIVendor");
  const std::string device = info(object, "PCIDevice");
  return vendor.empty() || device.empty() ? vendor + device : vendor + " " + device;
}

/// NVIDIA's driver names its cards; for the others hwloc may have read a table of names.
std::string model_of(hwloc_topology_t topology, hwloc_obj_t object, const std::string& address) {
  if (!hwloc_topology_is_thissystem(topology)) return name_in_table(object);
  std::ifstream card("/proc/driver/nvidia/gpus/" + address + "/information");
  std::string label;
  std::string model;
  if (card >> label && label == "Model:" && std::getline(card >> std::ws, model)) return model;
  return name_in_table(object);
}

void add_device(hwloc_topology_t topology, hwloc_obj_t object, Machine& machine) {
  const bool bridge = object->type == HWLOC_OBJ_BRIDGE;
  const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci = bridge ? object->attr->bridge.upstream.pci : object->attr->pcidev;
  PciDevice device;
  device.address = pci_address_of(pci);
  device.kind = bridge ? PciKind::Bridge : pci_kind_of(pci.class_id);
  device.vendor_id = pci.vendor_id;
  device.device_id = pci.device_id;
  device.name = model_of(topology, object, device.address);
  device.numa_node = only_node(hwloc_get_non_io_ancestor_obj(topology, object));
  device.root = root_of(object);
  hwloc_obj_t above = object->parent;
  while (above != nullptr && !is_pci_bridge(above)) above = above->parent;
  if (above != nullptr) device.parent = pci_address_of(above->attr->bridge.upstream.pci);
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
