#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <hwloc.h>

namespace sinew {

/// An hwloc topology that ends itself; for the readers in this folder.
using HwlocTopology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, decltype(&hwloc_topology_destroy)>;

/// Every object of a type, in hwloc's order.
inline std::vector<hwloc_obj_t> objects_of(hwloc_topology_t topology, hwloc_obj_type_t type) {
  std::vector<hwloc_obj_t> objects;
  for (hwloc_obj_t o = nullptr; (o = hwloc_get_next_obj_by_type(topology, type, o)) != nullptr;) objects.push_back(o);
  return objects;
}

/// "0000:3b:00.0"
inline std::string pci_address_of(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func);
}

/// The kernel's number of the only NUMA node that `object` is near to, or -1.
inline int only_node(hwloc_obj_t object) {
  const bool one = object != nullptr && object->nodeset != nullptr && hwloc_bitmap_weight(object->nodeset) == 1;
  return one ? hwloc_bitmap_first(object->nodeset) : -1;
}

}  // namespace sinew
