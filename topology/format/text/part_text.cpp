#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/host/cpu_list.hpp>
#include <sinew/topology/format/text/part_text.hpp>

namespace sinew {
namespace {

std::string network_rate(const Figure& figure) {
  return figure.value ? fmt::format("{:.4g} Gbit/s = {:.4g} GB/s ({})", *figure.value * 8 / 1e9, *figure.value / 1e9,
                                    figure.source)
                      : fmt::format("rate unknown ({})", figure.source);
}

/// "RDMA port mlx5_0:1 (active, GID fe80:..., MTU 2048 bytes)".
std::string rdma_fact(const Nic& nic) {
  const std::string name = fmt::format("{}:{}", nic.rdma.device, nic.rdma.number);
  std::string fact = name == nic.name ? "RDMA port" : "RDMA port " + name;
  fact += fmt::format(" ({}", nic.rdma.state == RdmaState::Unknown ? "state unknown" : name_of(nic.rdma.state));
  if (!nic.rdma.gid.empty()) fact += fmt::format(", GID {}", nic.rdma.gid);
  if (nic.rdma.mtu_bytes > 0) fact += fmt::format(", MTU {} bytes", nic.rdma.mtu_bytes);
  return fact + ")";
}

std::string gpu_links(LinkKind kind, int width) {
  return counted(static_cast<std::size_t>(width), gpu_link_name(kind));
}

/// The switches that it is joined to beside the PCI tree: " joined to 0000:3a:00.0".
std::string joined_switches(const Machine& machine, const PciDevice& device) {
  const std::string name = "pci:" + device.address;
  std::vector<std::string_view> others;
  for (const Link& link : machine.links) {
    if (link.kind != LinkKind::Pci || (link.from != name && link.to != name)) continue;
    const std::string_view other = link.from == name ? link.to : link.from;
    const auto end = std::ranges::find(machine.pci_devices, other.substr(std::min<std::size_t>(4, other.size())),
                                       &PciDevice::address);
    if (end == machine.pci_devices.end() || end->parent == device.address || device.parent == end->address) continue;
    others.push_back(end->address);
  }
  return others.empty() ? "" : fmt::format(", joined to {}", fmt::join(others, " and "));
}

}  // namespace

std::string binary_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.4g} {}", value, kUnits[unit]);
}

std::string counted(std::size_t n, std::string_view one, std::string_view more) {
  if (n == 1) return fmt::format("1 {}", one);
  return more.empty() ? fmt::format("{} {}s", n, one) : fmt::format("{} {}", n, more);
}

std::string core_list(const std::vector<int>& cores) {
  return cores.empty() ? "no cores" : fmt::format("core{} {}", cores.size() == 1 ? "" : "s", format_cpu_list(cores));
}

std::string memory_text(const Machine& machine, const NumaNode& node) {
  if (node.memory_bytes > 0) return binary_text(node.memory_bytes);
  return machine.memory_bytes == 0 ? "unknown memory" : "no memory";
}

std::string_view gpu_link_name(LinkKind kind) { return kind == LinkKind::Xgmi ? "XGMI link" : "NVLink"; }

std::string line_list(const std::vector<int>& lines) {
  constexpr std::size_t kShown = 4;
  const std::vector<int> shown(lines.begin(),
                               lines.begin() + static_cast<std::ptrdiff_t>(std::min(lines.size(), kShown)));
  const std::size_t more = lines.size() - shown.size();
  return fmt::format("line{} {}{}", lines.size() == 1 ? "" : "s", fmt::join(shown, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

std::vector<std::string> ignored_lines(const Machine& machine) {
  std::vector<std::string> lines;
  std::vector<std::string_view> known;
  for (const Ignored& one : machine.ignored) {
    if (one.known) {
      known.push_back(one.what);
    } else {
      lines.push_back(fmt::format("{}, {} of {}: {}", one.what, line_list(one.lines), one.file, one.why));
    }
  }
  if (!known.empty()) lines.push_back(fmt::format("known, but not described here: {}", fmt::join(known, ", ")));
  return lines;
}

std::string rate_text(const Figure& bytes_per_s) {
  return bytes_per_s.value ? fmt::format("{:.4g} GB/s ({})", *bytes_per_s.value / 1e9, bytes_per_s.source)
                           : fmt::format("unknown ({})", bytes_per_s.source);
}

std::string caches_line(const Machine& machine, const std::vector<int>& cores) {
  std::vector<std::string> kinds;
  for (const Cache& cache : machine.caches) {
    if (!std::ranges::includes(cores, cache.cores)) continue;
    std::string kind = fmt::format("L{} {} per {}", cache.level, binary_text(cache.bytes),
                                   cache.cores.size() == 1 ? "core" : counted(cache.cores.size(), "core"));
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(std::move(kind));
  }
  return fmt::format("{}", fmt::join(kinds, ", "));
}

std::string numa_line(const Machine& machine, const NumaNode& node) {
  std::string line = fmt::format("NUMA node {}: {}, {}", node.id, memory_text(machine, node), core_list(node.cores));
  const std::string name = fmt::format("numa:{}", node.id);
  for (const Link& link : machine.links) {
    if (link.kind != LinkKind::Memory || link.from != name || link.to.starts_with("numa:")) continue;
    if (link.bytes_per_s.value) line += ", " + rate_text(link.bytes_per_s);
    if (link.latency_s.value)
      line += fmt::format(", {:.0f} ns ({})", *link.latency_s.value * 1e9, link.latency_s.source);
  }
  return line;
}

std::string pci_line(const Machine& machine, const PciDevice& device) {
  const auto link = std::ranges::find(machine.links, "pci:" + device.address, &Link::from);
  const std::string id = fmt::format("{:04x}:{:04x}", device.vendor_id, device.device_id);
  return fmt::format("{} {}: {}{}{}{}, link {}", device.address, name_of(device.kind),
                     device.name.empty() ? id : device.name,
                     device.numa_node < 0 ? "" : fmt::format(", NUMA node {}", device.numa_node),
                     device.parent.empty() ? "" : ", below " + device.parent, joined_switches(machine, device),
                     link == machine.links.end() ? "unknown" : rate_text(link->bytes_per_s));
}

std::string gpu_line(const Gpu& gpu) {
  std::vector<std::string> facts{gpu.name.empty() ? "unnamed" : gpu.name};
  if (!gpu.pci.empty()) facts.back() += " at " + gpu.pci;
  if (!gpu.architecture.empty()) facts.push_back(gpu.architecture);
  if (gpu.numa_node >= 0) facts.push_back(fmt::format("NUMA node {}", gpu.numa_node));
  if (gpu.memory_bytes > 0) facts.push_back(binary_text(gpu.memory_bytes));
  if (gpu.mig != MigMode::Unknown) facts.push_back(fmt::format("MIG {}", name_of(gpu.mig)));
  if (gpu.nvlinks >= 0) {
    facts.push_back(gpu_links(LinkKind::NvLink, gpu.nvlinks));
    if (gpu.nvlink_generation > 0) facts.back() += fmt::format(" of generation {}", gpu.nvlink_generation);
  }
  if (gpu.xgmi_links >= 0) facts.push_back(gpu_links(LinkKind::Xgmi, gpu.xgmi_links));
  if (!gpu.uuid.empty()) facts.push_back(gpu.uuid);
  return fmt::format("{}", fmt::join(facts, ", "));
}

std::vector<std::string> gpu_link_lines(const Machine& machine, std::string_view part) {
  std::vector<std::string> lines;
  int switches = 0;
  Link together{.bytes_per_s = Figure::of(0, ""), .width = 0};
  for (const Link& link : machine.links) {
    if ((link.kind != LinkKind::NvLink && link.kind != LinkKind::Xgmi) || link.from != part) continue;
    if (!link.to.starts_with("nvswitch:")) {
      lines.push_back(
          fmt::format("{} to {}: {}", gpu_links(link.kind, link.width), link.to, rate_text(link.bytes_per_s)));
      continue;
    }
    ++switches;
    together.width += link.width;
    const auto& known = together.bytes_per_s.value;
    if (known && link.bytes_per_s.value) {
      together.bytes_per_s = Figure::of(*known + *link.bytes_per_s.value, link.bytes_per_s.source);
    } else {
      together.bytes_per_s = Figure::unknown(link.bytes_per_s.source);
    }
  }
  if (switches > 0) {
    lines.push_back(fmt::format("{} to {}: {}", gpu_links(LinkKind::NvLink, together.width),
                                counted(static_cast<std::size_t>(switches), "NVSwitch", "NVSwitches"),
                                rate_text(together.bytes_per_s)));
  }
  return lines;
}

std::string nvswitch_line(const NvSwitch& nvswitch) {
  return nvswitch.pci.empty() ? "not shown by this machine" : "at " + nvswitch.pci;
}

std::string nic_line(const Nic& nic) {
  std::vector<std::string> facts;
  facts.push_back(nic.loopback ? "loopback" : std::string(name_of(nic.kind)));
  if (!nic.driver.empty()) facts.back() += fmt::format(" ({})", nic.driver);
  if (!nic.pci.empty()) facts.back() += " at " + nic.pci;
  facts.emplace_back(nic.running ? "running" : nic.up ? "up without a link" : "down");
  for (const NicAddress& address : nic.addresses) facts.push_back(fmt::format("{}/{}", address.text, address.prefix));
  if (nic.mtu_bytes > 0) facts.push_back(fmt::format("MTU {}", nic.mtu_bytes));
  if (!nic.rdma.device.empty()) facts.push_back(rdma_fact(nic));
  if (nic.numa_node >= 0) facts.push_back(fmt::format("NUMA node {}", nic.numa_node));
  facts.push_back(network_rate(nic.bytes_per_s));
  return fmt::format("{}: {}", nic.name, fmt::join(facts, ", "));
}

}  // namespace sinew
