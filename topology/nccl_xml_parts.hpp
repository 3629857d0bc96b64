#pragma once

#include <vector>

#include <sinew/topology/machine.hpp>
#include <sinew/topology/xml_reader.hpp>

/// The steps of machine_from_nccl_xml(), one source each.
namespace sinew::nccl_xml {

/// A GPU with what the file says of it, until all are known.
struct FoundGpu {
  Gpu gpu;
  pugi::xml_node node;  ///< <gpu>; null: only its PCI class shows what it is
  int dev = 0;          ///< NCCL's number of it
  int sm = 0;           ///< 0: unknown
};

/// The devices below a <cpu>: into machine.pci_devices, links and nics, and `gpus`.
void read_pci_tree(const XmlReader& reader, pugi::xml_node cpu, int numa_node, Machine& machine,
                   std::vector<FoundGpu>& gpus);

/// The ports of a <nic>. `device`: what it is; null: it is on no PCI device.
void read_nic(const XmlReader& reader, pugi::xml_node nic, const PciDevice* device, unsigned class_id,
              Machine& machine);

/// NVSwitches and NVLinks of `gpus`, which are those of machine.gpus in their order.
void read_nvlinks(const XmlReader& reader, const std::vector<FoundGpu>& gpus, Machine& machine);

}  // namespace sinew::nccl_xml
