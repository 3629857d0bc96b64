#pragma once

#include <string>

#include <sinew/topology/machine.hpp>

/// Parts that named machines are put together from; for the sources in this folder.
namespace sinew::machine_parts {

/// A processor of a datasheet, and how the firmware divides it.
struct Processor {
  std::string model;
  int cores = 1;
  int numa_nodes = 1;  ///< of one package
  int cores_per_l3 = 1;
  std::uint64_t l3_bytes = 0;  ///< of each L3
  std::uint64_t l2_bytes = 0;
  std::uint64_t l1_bytes = 0;
  std::uint64_t memory_bytes = 0;  ///< of one package
  double memory_bytes_per_s = 0;   ///< of one package
  std::string memory_source;
};

/// Two of them, with two hardware threads per core: CPU n and n + all cores are on core n, as Linux numbers them.
Machine two_sockets(std::string name, const Processor& processor);

/// A PCI Express link to what is above: `parent`, or the root complex of the NUMA node if that is empty.
struct PciSlot {
  std::string address;
  std::string parent;
  int numa_node = -1;
  double transfers_per_s = 0;  ///< 32e9: generation 5
};

void add_switch(Machine& machine, const PciSlot& slot);
/// `gpu`: name and what its datasheet says; its place is the slot's.
void add_gpu(Machine& machine, const PciSlot& slot, std::uint16_t device_id, Gpu gpu);
/// `nic`: name, kind, rate and driver, by default mlx5_core; up, and Active where it is RDMA.
void add_nic(Machine& machine, const PciSlot& slot, std::uint16_t device_id, Nic nic);

}  // namespace sinew::machine_parts
