#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>

#include <sinew/topology/format/nccl/nccl_xml_parts.hpp>
#include <sinew/topology/model/nvlink.hpp>
#include <sinew/topology/model/pci_address.hpp>
#include <sinew/topology/model/pci_kind.hpp>
#include <sinew/topology/model/pci_rate.hpp>

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
  const std::string speed = reader.text(pci, "link_speed");
  const std::string width = reader.text(pci, "link_width");
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

constexpr int kMostLinks = 1024;

/// How many links the children of this name stand for together; -1: there are none, and no GPU of this maker has them.
int count_links(const XmlReader& reader, pugi::xml_node gpu, const char* name, bool has_them) {
  const auto links = reader.children(gpu, name);
  if (links.empty() && !has_them) return -1;
  int count = 0;
  for (const pugi::xml_node link : links) {
    count += static_cast<int>(reader.required_integer(link, "count", 1, kMostLinks));
    if (count > kMostLinks) reader.reject(gpu, fmt::format("more than {} <{}> links", kMostLinks, name));
  }
  return count;
}

/// RCCL wrote "908" for gfx908 and "910" for gfx90a, before it wrote the name itself.
std::string gfx_name(const std::string& gcn) {
  if (gcn.size() != 3 || gcn.find_first_not_of("0123456789") != std::string::npos) return gcn;
  return gcn == "910" ? "gfx90a" : "gfx" + gcn;
}

/// `device`: what it is; null: it is on no PCI device.
void add_gpu(const XmlReader& reader, pugi::xml_node node, const PciDevice* device, int numa_node,
             std::vector<FoundGpu>& gpus) {
  FoundGpu found{
      {.pci = device == nullptr ? "" : device->address, .numa_node = numa_node}, node, std::numeric_limits<int>::max()};
  if (node) {
    found.dev = static_cast<int>(reader.required_integer(node, "dev", 0, kMostDevices));
    const bool is_amd = node.attribute("gcn") || node.child("xgmi");
    found.gpu.nvlinks = count_links(reader, node, "nvlink", !is_amd);
    found.gpu.xgmi_links = count_links(reader, node, "xgmi", is_amd);
    if (is_amd) {
      found.gpu.architecture = gfx_name(reader.text(node, "gcn"));
    } else {
      found.sm = static_cast<int>(reader.integer(node, "sm", 0, 10000).value_or(0));
      if (found.sm > 0) found.gpu.architecture = fmt::format("sm_{}", found.sm);
    }
    if (found.gpu.nvlinks > 0) found.gpu.nvlink_generation = nvlink_of_sm(found.sm).generation;
  }
  gpus.push_back(std::move(found));
}

/// The GPU that a PCI device is. More of them with the same `dev` are ranks that share it, each listed by NCCL.
void read_gpu_of(const Reading& reading, pugi::xml_node pci, const PciDevice& device, unsigned class_id) {
  const XmlReader& reader = reading.reader;
  const pugi::xml_node first = pci.child("gpu");
  if (!first && !is_gpu(device, class_id)) return;
  add_gpu(reader, first, &device, device.numa_node, reading.gpus);
  for (const pugi::xml_node node : reader.children(pci, "gpu")) {
    if (node == first) continue;
    const bool shares = std::string_view(node.attribute("dev").value()) == first.attribute("dev").value();
    reading.ignored.add(reader.line_of(node), "another <gpu> in one <pci>",
                        shares ? "another rank on the same GPU" : "not understood: a PCI device is one GPU", shares);
    reader.skip(node);
  }
}

void read_pci(const Reading& reading, pugi::xml_node pci, int numa_node, const std::string& parent, int depth) {
  const XmlReader& reader = reading.reader;
  Machine& machine = reading.machine;
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
  read_gpu_of(reading, pci, device, class_id);
  read_nics(reading, pci, &device, class_id);
  for (const pugi::xml_node link : reader.children(pci, "pcilink")) reading.pci_links.push_back({device.address, link});
  for (const pugi::xml_node below : reader.children(pci, "pci")) {
    read_pci(reading, below, numa_node, device.address, depth + 1);
  }
}

}  // namespace

void read_devices(const Reading& reading, pugi::xml_node parent, int numa_node) {
  const XmlReader& reader = reading.reader;
  for (const pugi::xml_node pci : reader.children(parent, "pci")) read_pci(reading, pci, numa_node, "", 1);
  for (const pugi::xml_node gpu : reader.children(parent, "gpu")) {
    add_gpu(reader, gpu, nullptr, numa_node, reading.gpus);
  }
  read_nics(reading, parent, nullptr, 0);
}

}  // namespace sinew::nccl_xml
