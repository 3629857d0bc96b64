#include <numeric>

#include <fmt/format.h>

#include <sinew/topology/model/machine_parts.hpp>
#include <sinew/topology/model/pci_rate.hpp>

namespace sinew::machine_parts {
namespace {

constexpr int kSockets = 2;
constexpr std::uint32_t kLineBytes = 64;
constexpr std::uint16_t kNvidia = 0x10de;
constexpr std::uint16_t kMellanox = 0x15b3;
constexpr std::uint16_t kAmazon = 0x1d0f;
constexpr std::uint16_t kBroadcom = 0x1000;  // not a page

std::vector<int> range(int first, int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

void add_caches(Machine& machine, const Processor& processor) {
  const int cores = kSockets * processor.cores;
  for (int c = 0; c < cores; c += processor.cores_per_l3) {
    machine.caches.push_back({3, processor.l3_bytes, kLineBytes, range(c, processor.cores_per_l3)});
  }
  for (int c = 0; c < cores; ++c) machine.caches.push_back({2, processor.l2_bytes, kLineBytes, {c}});
  for (int c = 0; c < cores; ++c) machine.caches.push_back({1, processor.l1_bytes, kLineBytes, {c}});
}

void add_nodes(Machine& machine, const Processor& processor) {
  const int each = processor.cores / processor.numa_nodes;
  for (int n = 0; n < kSockets * processor.numa_nodes; ++n) {
    const int package = n / processor.numa_nodes;
    machine.numa_nodes.push_back(
        {n, package, processor.memory_bytes / static_cast<std::uint64_t>(processor.numa_nodes), range(n * each, each)});
    machine.links.push_back({LinkKind::Memory, fmt::format("numa:{}", n), fmt::format("package:{}", package),
                             Figure::of(processor.memory_bytes_per_s / processor.numa_nodes, processor.memory_source),
                             Figure::unknown("not in the datasheet")});
  }
}

void add_device(Machine& machine, const PciSlot& slot, PciKind kind, std::uint16_t vendor_id, std::uint16_t device_id,
                const std::string& name) {
  constexpr int kLanes = 16;
  machine.links.push_back({LinkKind::Pci, "pci:" + slot.address,
                           slot.parent.empty() ? fmt::format("numa:{}", slot.numa_node) : "pci:" + slot.parent,
                           Figure::of(pci_bytes_per_s(slot.transfers_per_s, kLanes),
                                      fmt::format("PCI Express: {} GT/s x{}", slot.transfers_per_s / 1e9, kLanes)),
                           Figure::unknown("not in the datasheet")});
  const std::string root = slot.parent.empty() ? slot.address.substr(0, slot.address.rfind(':')) : "";
  machine.pci_devices.push_back({slot.address, kind, vendor_id, device_id, name, slot.parent, slot.numa_node, root});
}

}  // namespace

Machine two_sockets(std::string name, const Processor& processor) {
  Machine machine;
  machine.identity = "named:" + name;
  machine.host_name = std::move(name);
  machine.system = "by its datasheet:";
  machine.architecture = "x86_64";
  machine.memory_bytes = kSockets * processor.memory_bytes;
  machine.usable_cores = kSockets * processor.cores;
  for (int p = 0; p < kSockets; ++p) {
    machine.packages.push_back({p, processor.model, range(p * processor.cores, processor.cores)});
  }
  const int per_node = processor.cores / processor.numa_nodes;
  for (int c = 0; c < kSockets * processor.cores; ++c) {
    machine.cores.push_back({c / processor.cores, c / per_node, {c, c + kSockets * processor.cores}, true});
  }
  add_nodes(machine, processor);
  add_caches(machine, processor);
  return machine;
}

void add_switch(Machine& machine, const PciSlot& slot) {
  add_device(machine, slot, PciKind::Switch, kBroadcom, 0, "PCI Express switch");
}

void add_gpu(Machine& machine, const PciSlot& slot, std::uint16_t device_id, Gpu gpu) {
  gpu.pci = slot.address;
  gpu.numa_node = slot.numa_node;
  add_device(machine, slot, PciKind::Display, kNvidia, device_id, gpu.name);
  machine.gpus.push_back(std::move(gpu));
}

void add_nic(Machine& machine, const PciSlot& slot, std::uint16_t device_id, Nic nic) {
  nic.pci = slot.address;
  nic.numa_node = slot.numa_node;
  nic.up = nic.running = true;
  if (nic.driver.empty()) nic.driver = "mlx5_core";
  if (!nic.rdma.device.empty()) nic.rdma.state = RdmaState::Active;
  machine.links.push_back({LinkKind::Network, "nic:" + nic.name, "network", nic.bytes_per_s,
                           Figure::unknown("depends on the network; not in the datasheet")});
  add_device(machine, slot, PciKind::Network, nic.driver == "efa" ? kAmazon : kMellanox, device_id, "");
  machine.nics.push_back(std::move(nic));
}

}  // namespace sinew::machine_parts
