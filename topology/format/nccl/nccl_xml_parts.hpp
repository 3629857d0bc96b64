#pragma once

#include <string>
#include <vector>

#include <sinew/topology/format/ignored.hpp>
#include <sinew/topology/format/xml_reader.hpp>
#include <sinew/topology/machine.hpp>

/// The steps of machine_from_nccl_xml(), one source each.
namespace sinew::nccl_xml {

/// A GPU with what the file says of it, until all are known.
struct FoundGpu {
  Gpu gpu;
  pugi::xml_node node;  ///< <gpu>; null: only its PCI class shows what it is
  int dev = 0;          ///< NCCL's number of it
  int sm = 0;           ///< compute capability times ten; 0: unknown, or AMD's
};

/// A <pcilink>, until all devices are known.
struct PciLink {
  std::string from;  ///< PciDevice::address of the switch that lists it
  pugi::xml_node node;
};

/// A file and what has been made of it so far.
struct Reading {
  const XmlReader& reader;
  Machine& machine;
  std::vector<FoundGpu>& gpus;
  std::vector<PciLink>& pci_links;
  IgnoredList& ignored;
};

/// The devices in a <cpu>, or in a <system>, where no writer puts any but people do: <pci>, <gpu>, <nic> and <net>.
/// `numa_node`: -1: unknown.
void read_devices(const Reading& reading, pugi::xml_node parent, int numa_node);

/// The <nic> and <net> of a <pci>, <cpu> or <system>. `device`: what they are; null: they are on no PCI device.
void read_nics(const Reading& reading, pugi::xml_node parent, const PciDevice* device, unsigned class_id);

/// The links between switches that <pcilink> states; when all devices are known.
void read_pci_links(const Reading& reading);

/// NVSwitches, NVLinks, XGMI and C2C links of `gpus`, which are those of machine.gpus in their order.
void read_gpu_links(const Reading& reading);

/// What no step has read: with the meaning of what NCCL and RCCL are known to write.
void list_ignored(const Reading& reading);

}  // namespace sinew::nccl_xml
