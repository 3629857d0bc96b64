#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>

#include <sinew/topology/nccl_xml_parts.hpp>
#include <sinew/topology/nvlink.hpp>
#include <sinew/topology/pci_address.hpp>
#include <sinew/topology/pci_kind.hpp>
#include <sinew/topology/pci_rate.hpp>

namespace sinew::nccl_xml {
namespace {

constexpr int kDeepest = 64;  ///< bridges above each other; machines have three
constexpr long long kMostDevices = 65535;

/// Base and sub class of "0x030200"; NCCL also writes "0x03" where it knows no more.
unsigned class_of(const XmlReader& reader, pugi::xml_node pci) {
  const std::string text = reader.required_text(pci, "class");
  const auto value = static_cast<unsigned>(reader.required_integer(pci, "class", 0, 0xffffff));
  switch (text.size()) {
    case 4: return value << 8;
    case 6: return value;
    case 8: return value >> 8;
    default: reader.reject(pci, fmt::format("class=\"{}\": expected 2, 4 or 6 hexadecimal digits after 0x", text));
  }
}

Figure rate_of_pci_link(const XmlReader& reader, pugi::xml_node pci) {
  const std::string speed = XmlReader::text(pci, "link_speed");
  const std::string width = XmlReader::text(pci, "link_width");
  const int lanes = width.empty() ? 0 : static_cast<int>(reader.required_integer(pci, "link_width", 0, 255));
  constexpr int kAllOnes = 255;  // sysfs has that where the device does not answer
  if (speed.empty() || speed.starts_with("Unknown") || lanes == 0 || lanes == kAllOnes) {
    return Figure::unknown(fmt::format("NCCL saw no link speed here: \"{}\" x \"{}\"", speed, width));
  }
  double giga = 0;
  const auto [end, error] = std::from_chars(speed.data(), speed.data() + speed.size(), giga);
  const std::string_view unit(end, static_cast<std::size_t>(speed.data() + speed.size() - end));
  if (error != std::errc{} || !unit.starts_with(" GT/s") || !(giga > 0 && giga <= 1000)) {
    reader.reject(pci, fmt::format("link_speed=\"{}\": expected a speed such as \"32.0 GT/s PCIe\"", speed));
  }
  return Figure::of(pci_bytes_per_s(giga * 1e9, lanes), fmt::format("NCCL saw {} x{}", speed, lanes));
}

PciDevice device_of(const XmlReader& reader, pugi::xml_node pci, int numa_node, const std::string& parent) {
  PciDevice device;
  const std::string busid = reader.required_text(pci, "busid");
  device.address = pci_address(busid);
  if (device.address.empty()) {
    reader.reject(pci, fmt::format("busid=\"{}\": expected an address such as 0000:3b:00.0", busid));
  }
  device.kind = pci_kind_of(class_of(reader, pci));
  if (device.kind == PciKind::Bridge) device.kind = PciKind::Switch;  // NCCL leaves out the ports below
  device.vendor_id = static_cast<std::uint16_t>(reader.integer(pci, "vendor", 0, 0xffff).value_or(0));
  device.device_id = static_cast<std::uint16_t>(reader.integer(pci, "device", 0, 0xffff).value_or(0));
  device.parent = parent;
  device.numa_node = numa_node;
  return device;
}

void add_gpu(const XmlReader& reader, pugi::xml_node node, const PciDevice& device, std::vector<FoundGpu>& gpus) {
  FoundGpu found{{.pci = device.address, .numa_node = device.numa_node}, node, std::numeric_limits<int>::max()};
  if (node) {  // of several, which are ranks on one GPU, the first
    found.dev = static_cast<int>(reader.required_integer(node, "dev", 0, kMostDevices));
    found.sm = static_cast<int>(reader.integer(node, "sm", 0, 10000).value_or(0));
    constexpr int kMostNvLinks = 1024;
    found.gpu.nvlinks = 0;
    for (const pugi::xml_node link : node.children("nvlink")) {
      found.gpu.nvlinks += static_cast<int>(reader.required_integer(link, "count", 1, kMostNvLinks));
      if (found.gpu.nvlinks > kMostNvLinks) reader.reject(node, fmt::format("more than {} NVLinks", kMostNvLinks));
    }
    if (found.gpu.nvlinks > 0) found.gpu.nvlink_generation = nvlink_of_sm(found.sm).generation;
  }
  gpus.push_back(std::move(found));
}

void read_pci(const XmlReader& reader, pugi::xml_node pci, int numa_node, const std::string& parent, int depth,
              Machine& machine, std::vector<FoundGpu>& gpus) {
  if (depth > kDeepest) reader.reject(pci, fmt::format("more than {} PCI devices above each other", kDeepest));
  const PciDevice device = device_of(reader, pci, numa_node, parent);
  if (std::ranges::find(machine.pci_devices, device.address, &PciDevice::address) != machine.pci_devices.end()) {
    reader.reject(pci, fmt::format("busid=\"{}\" is listed twice", device.address));
  }
  const std::string root = numa_node < 0 ? "host" : fmt::format("numa:{}", numa_node);
  machine.links.push_back({LinkKind::Pci, "pci:" + device.address, parent.empty() ? root : "pci:" + parent,
                           rate_of_pci_link(reader, pci), Figure::unknown("not measured")});
  machine.pci_devices.push_back(device);
  const unsigned class_id = class_of(reader, pci);
  if (const pugi::xml_node gpu = pci.child("gpu"); gpu || is_gpu(device, class_id)) add_gpu(reader, gpu, device, gpus);
  for (const pugi::xml_node nic : pci.children("nic")) read_nic(reader, nic, &device, class_id, machine);
  for (const pugi::xml_node below : pci.children("pci")) {
    read_pci(reader, below, numa_node, device.address, depth + 1, machine, gpus);
  }
}

}  // namespace

void read_pci_tree(const XmlReader& reader, pugi::xml_node cpu, int numa_node, Machine& machine,
                   std::vector<FoundGpu>& gpus) {
  for (const pugi::xml_node pci : cpu.children("pci")) read_pci(reader, pci, numa_node, "", 1, machine, gpus);
}

}  // namespace sinew::nccl_xml
