#include <algorithm>
#include <string>

#include <fmt/format.h>

#include <sinew/topology/discover/os_devices.hpp>
#include <sinew/topology/discover/sysfs.hpp>

namespace sinew {
namespace {

constexpr const char* kNotInFile = "hwloc's XML does not say";

std::optional<std::string> info(hwloc_obj_t object, const std::string& key) {
  const char* value = hwloc_obj_get_info_by_name(object, key.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

/// The PCI device that an OS device belongs to; empty: none.
std::string pci_of(hwloc_obj_t object) {
  while (object != nullptr && object->type != HWLOC_OBJ_PCI_DEVICE) object = object->parent;
  return object == nullptr ? "" : pci_address_of(object->attr->pcidev);
}

Nic nic_at(hwloc_topology_t topology, hwloc_obj_t object) {
  Nic nic;
  nic.name = object->name == nullptr ? "" : object->name;
  nic.pci = pci_of(object);
  nic.numa_node = only_node(hwloc_get_non_io_ancestor_obj(topology, object));
  nic.bytes_per_s = Figure::unknown(kNotInFile);
  nic.up = nic.running = true;
  return nic;
}

/// hwloc lists ports from 1 as "Port1State" ("4" is active) and "Port1GID0".
void add_rdma_ports(hwloc_topology_t topology, hwloc_obj_t object, Machine& machine) {
  for (int port = 1;; ++port) {
    const auto state = info(object, fmt::format("Port{}State", port));
    if (!state && port > 1) return;
    Nic nic = nic_at(topology, object);
    nic.kind = NicKind::InfiniBand;
    nic.rdma = {nic.name, port, RdmaState::Unknown, info(object, fmt::format("Port{}GID0", port)).value_or("")};
    const int number = int_or(state, 0);
    if (number >= 1 && number <= 4) nic.rdma.state = static_cast<RdmaState>(number);
    nic.up = nic.rdma.state != RdmaState::Down;
    nic.running = nic.rdma.state == RdmaState::Active;
    nic.name = fmt::format("{}:{}", nic.name, port);
    machine.nics.push_back(std::move(nic));
  }
}

void add_interface(hwloc_topology_t topology, hwloc_obj_t object, Machine& machine) {
  Nic nic = nic_at(topology, object);
  nic.hardware_address = info(object, "Address").value_or("");
  const int port = int_or(info(object, "Port"), 1);
  const auto own = std::ranges::find_if(machine.nics, [&](const Nic& rdma) {
    const bool free = rdma.name == fmt::format("{}:{}", rdma.rdma.device, port);
    return free && !nic.pci.empty() && rdma.pci == nic.pci;
  });
  constexpr std::size_t kMacCharacters = 17;  // InfiniBand's addresses have 20 bytes, Ethernet's 6
  const bool ethernet = nic.hardware_address.size() <= kMacCharacters;
  nic.kind = ethernet ? NicKind::Ethernet : NicKind::InfiniBand;
  if (own == machine.nics.end()) {
    machine.nics.push_back(std::move(nic));
    return;
  }
  nic.rdma = own->rdma;
  if (ethernet) nic.kind = NicKind::RoCE;
  *own = std::move(nic);
}

void add_to_gpu(hwloc_obj_t object, Machine& machine) {
  const auto gpu = std::ranges::find(machine.gpus, pci_of(object), &Gpu::pci);
  if (gpu == machine.gpus.end()) return;
  constexpr double kKiB = 1 << 10;
  if (const auto model = info(object, "GPUModel")) gpu->name = *model;
  if (const auto uuid = info(object, "NVIDIAUUID")) gpu->uuid = *uuid;
  if (const auto kib = leading_number(info(object, "CUDAGlobalMemorySize"))) {
    gpu->memory_bytes = static_cast<std::uint64_t>(*kib * kKiB);
  }
}

}  // namespace

void read_os_devices(hwloc_topology_t topology, Machine& machine) {
  const std::vector<hwloc_obj_t> devices = objects_of(topology, HWLOC_OBJ_OS_DEVICE);
  for (const hwloc_obj_t device : devices) {
    if (device->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS) add_rdma_ports(topology, device, machine);
  }
  for (const hwloc_obj_t device : devices) {
    const hwloc_obj_osdev_type_t type = device->attr->osdev.type;
    if (type == HWLOC_OBJ_OSDEV_NETWORK) add_interface(topology, device, machine);
    if (type == HWLOC_OBJ_OSDEV_GPU || type == HWLOC_OBJ_OSDEV_COPROC) add_to_gpu(device, machine);
  }
  if (!machine.nics.empty()) {
    machine.unseen.push_back({"rate and state of network interfaces", kNotInFile});
  }
  if (machine.gpus.size() > 1) {
    machine.unseen.push_back({"NVLinks", "they are not read from hwloc's XML"});
    machine.unseen.push_back({"peer access between GPUs", fmt::format("unknown: {}", kNotInFile)});
  }
}

}  // namespace sinew
