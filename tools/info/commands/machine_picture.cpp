#include "machine_picture.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/host/cpu_list.hpp>
#include <sinew/tools/draw/parts.hpp>
#include <sinew/topology/format/text/part_text.hpp>

namespace sinew::tools {
namespace {

using draw::Part;

constexpr double kMachineWidth = 1320, kNodeWidth = 640, kCoresWidth = 14 * 14;
constexpr double kColumn = 0;  // one below the other
constexpr std::size_t kShortColumn = 4;

std::string rate(const Figure& bytes_per_s) {
  return bytes_per_s.value ? fmt::format("{:.4g} GB/s", *bytes_per_s.value / 1e9) : "rate unknown";
}

class Picture {
 public:
  explicit Picture(const Machine& machine) : machine_(machine) {}

  Part whole() const {
    Part all{.heading = machine_.host_name, .tooltip = "identity: " + machine_.identity, .row_width = kMachineWidth};
    all.lines = {fmt::format("{} {}", machine_.system, machine_.architecture),
                 fmt::format("{} of memory, {}, {} usable",
                             machine_.memory_bytes == 0 ? "an unknown amount" : binary_text(machine_.memory_bytes),
                             counted(machine_.cores.size(), "core"), machine_.usable_cores)};
    for (const Package& package : machine_.packages) all.inside.push_back(package_part(package));
    for (const NumaNode& node : machine_.numa_nodes) {
      if (!has_package(node)) all.inside.push_back(node_part(node));
    }
    for (Part& part : elsewhere()) all.inside.push_back(std::move(part));
    for (const Unseen& gap : machine_.unseen) all.lines.push_back(fmt::format("not seen: {}: {}", gap.what, gap.why));
    for (const std::string& line : ignored_lines(machine_)) all.lines.push_back("left out: " + line);
    return all;
  }

 private:
  bool has_package(const NumaNode& node) const {
    return std::ranges::find(machine_.packages, node.package, &Package::id) != machine_.packages.end();
  }

  Part package_part(const Package& package) const {
    Part part{.heading = fmt::format("package {}", package.id), .tooltip = package.model, .row_width = kNodeWidth};
    if (!package.model.empty()) part.heading += ": " + package.model;
    part.lines = {caches_line(machine_, package.cores)};
    std::vector<int> left = package.cores;
    for (const NumaNode& node : machine_.numa_nodes) {
      if (node.package != package.id) continue;
      part.inside.push_back(node_part(node));
      std::erase_if(left, [&](int core) { return std::ranges::find(node.cores, core) != node.cores.end(); });
    }
    add_cores(part, left);
    return part;
  }

  Part node_part(const NumaNode& node) const {
    Part part{.classes = "inner",
              .heading = fmt::format("NUMA node {}: {}", node.id, memory_text(machine_, node)),
              .lines = {"memory " + rate(memory_rate(node))},
              .tooltip = numa_line(machine_, node),
              .row_width = kNodeWidth};
    add_cores(part, node.cores);
    for (const PciDevice& device : machine_.pci_devices) {
      if (device.parent.empty() && is_at(device, node)) part.inside.push_back(device_part(device));
    }
    return part;
  }

  Figure memory_rate(const NumaNode& node) const {
    const std::string name = fmt::format("numa:{}", node.id);
    for (const Link& link : machine_.links) {
      if (link.kind == LinkKind::Memory && link.from == name && link.to.starts_with("package:"))
        return link.bytes_per_s;
    }
    return Figure::unknown("no such link is known");
  }

  /// In boxes of the caches that several of them share, and what is left in one more.
  void add_cores(Part& to, const std::vector<int>& cores) const {
    Part others{.classes = "part cores", .heading = "cores", .row_width = kCoresWidth};
    for (Part& part : core_parts(cores, kOuterCache))
      (part.heading.empty() ? others : to).inside.push_back(std::move(part));
    if (!others.inside.empty()) to.inside.push_back(std::move(others));
  }

  /// Squares, in boxes of the caches from this level on.
  std::vector<Part> core_parts(std::vector<int> cores, int level) const {
    std::vector<Part> parts;
    for (const Cache& cache : machine_.caches) {
      if (level == 0 || cache.level != level || cache.cores.size() < 2 || !std::ranges::includes(cores, cache.cores))
        continue;
      parts.push_back({.classes = "part cache",
                       .heading = fmt::format("L{} {}", level, binary_text(cache.bytes)),
                       .tooltip = fmt::format("L{} {}: {}", level, binary_text(cache.bytes), core_list(cache.cores)),
                       .inside = core_parts(cache.cores, level - 1),
                       .row_width = kCoresWidth});
      std::vector<int> rest;
      std::ranges::set_difference(cores, cache.cores, std::back_inserter(rest));
      cores = std::move(rest);
    }
    if (level > 0) {
      for (Part& part : core_parts(std::move(cores), level - 1)) parts.push_back(std::move(part));
      return parts;
    }
    for (const int c : cores) {
      const Core& core = machine_.cores[static_cast<std::size_t>(c)];
      parts.push_back({.classes = core.usable ? "core" : "core off",
                       .tooltip = fmt::format("core {}: cpus {}{}", c, format_cpu_list(core.cpus),
                                              core.usable ? "" : ", not for this process")});
    }
    return parts;
  }

  /// On a machine of one NUMA node everything is on it.
  bool is_at(const PciDevice& device, const NumaNode& node) const {
    return device.numa_node == node.id || (device.numa_node < 0 && machine_.numa_nodes.size() == 1);
  }
  bool is_anywhere(const PciDevice& device) const {
    return std::ranges::any_of(machine_.numa_nodes, [&](const NumaNode& node) { return is_at(device, node); });
  }
  bool is_known(const std::string& address) const {
    return std::ranges::find(machine_.pci_devices, address, &PciDevice::address) != machine_.pci_devices.end();
  }

  Part device_part(const PciDevice& device) const {
    const auto link = std::ranges::find(machine_.links, "pci:" + device.address, &Link::from);
    const std::string pci = "PCI " + (link == machine_.links.end() ? "rate unknown" : rate(link->bytes_per_s));
    Part part{.classes = "part device",
              .heading = fmt::format("{} {}", name_of(device.kind), device.address),
              .lines = {pci},
              .tooltip = pci_line(machine_, device)};
    for (std::size_t i = 0; i < machine_.gpus.size(); ++i) {
      if (machine_.gpus[i].pci == device.address) part.inside.push_back(gpu_part(i));
    }
    for (const Nic& nic : machine_.nics) {
      if (nic.pci == device.address) part.inside.push_back(nic_part(nic));
    }
    for (const PciDevice& below : machine_.pci_devices) {
      if (below.parent == device.address) part.inside.push_back(device_part(below));
    }
    if (part.inside.size() <= kShortColumn) part.row_width = kColumn;
    if (part.inside.size() != 1 || part.inside.front().classes.starts_with("part")) return part;
    Part only = std::move(part.inside.front());  // a card that is one GPU or one port
    only.lines.push_back(pci);
    only.tooltip += "; " + part.tooltip;
    return only;
  }

  Part gpu_part(std::size_t i) const {
    const Gpu& gpu = machine_.gpus[i];
    Part part{.classes = "gpu",
              .heading = fmt::format("GPU {}", i),
              .lines = {gpu.name.empty() ? "unnamed" : gpu.name,
                        gpu.memory_bytes == 0 ? "memory unknown" : binary_text(gpu.memory_bytes)},
              .tooltip = fmt::format("GPU {}: {}", i, gpu_line(gpu))};
    for (const std::string& line : gpu_link_lines(machine_, fmt::format("gpu:{}", i))) {
      part.lines.push_back(line.substr(0, line.rfind(" (")));
      part.tooltip += "; " + line;
    }
    return part;
  }

  static Part nic_part(const Nic& nic) {
    const auto& known = nic.bytes_per_s.value;
    Part part{.classes = "nic",
              .heading = nic.name,
              .lines = {nic.loopback ? "loopback" : std::string(name_of(nic.kind)),
                        known ? fmt::format("{:.4g} Gbit/s", *known * 8 / 1e9) : "rate unknown"},
              .tooltip = nic_line(nic)};
    if (!nic.running) part.lines.emplace_back(nic.up ? "up without a link" : "down");
    return part;
  }

  /// What is at no NUMA node that is known, or at no PCI device.
  std::vector<Part> elsewhere() const {
    Part fabric{.classes = "part fabric", .heading = "NVSwitches, one fabric"};
    for (std::size_t i = 0; i < machine_.nvswitches.size(); ++i) {
      fabric.inside.push_back({.classes = "nvswitch",
                               .heading = fmt::format("NVSwitch {}", i),
                               .lines = {nvswitch_line(machine_.nvswitches[i])}});
    }
    Part pci{.classes = "part", .heading = "PCI devices, NUMA node unknown", .row_width = kNodeWidth};
    for (const PciDevice& device : machine_.pci_devices) {
      if (device.parent.empty() && !is_anywhere(device)) pci.inside.push_back(device_part(device));
    }
    Part others{.classes = "part", .heading = "without a PCI device that is known", .row_width = kNodeWidth};
    for (std::size_t i = 0; i < machine_.gpus.size(); ++i) {
      if (!is_known(machine_.gpus[i].pci)) others.inside.push_back(gpu_part(i));
    }
    for (const Nic& nic : machine_.nics) {
      if (!is_known(nic.pci)) others.inside.push_back(nic_part(nic));
    }
    std::vector<Part> parts;
    for (Part* part : {&fabric, &pci, &others}) {
      if (!part->inside.empty()) parts.push_back(std::move(*part));
    }
    return parts;
  }

  static constexpr int kOuterCache = 4;
  const Machine& machine_;
};

}  // namespace

std::string machine_picture(const Machine& machine) {
  return draw::draw_parts(Picture(machine).whole(), "topology of " + machine.host_name);
}

}  // namespace sinew::tools
