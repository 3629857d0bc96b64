#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/topology/cpu_list.hpp>
#include <sinew/topology/distance_matrix.hpp>
#include <sinew/topology/peer_tables.hpp>
#include <sinew/topology/text.hpp>

namespace sinew {
namespace {

/// A line and what hangs below it.
struct Branch {
  std::string line;
  std::vector<Branch> below;

  Branch& add(std::string text) { return below.emplace_back(Branch{std::move(text), {}}); }
};

void render(const Branch& branch, const std::string& indent, std::string& out) {
  out += branch.line + "\n";
  for (const Branch& child : branch.below) {
    const bool last = &child == &branch.below.back();
    out += indent + (last ? "└─ " : "├─ ");
    render(child, indent + (last ? "   " : "│  "), out);
  }
}

/// "23.4 GiB", "32 KiB", "512 B".
std::string binary(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.4g} {}", value, kUnits[unit]);
}

std::string count(std::size_t n, std::string_view one, std::string_view more) {
  return fmt::format("{} {}", n, n == 1 ? one : more);
}

std::string count(std::size_t n, std::string_view what) { return count(n, what, fmt::format("{}s", what)); }

std::string core_list(const std::vector<int>& cores) {
  return cores.empty() ? "no cores" : fmt::format("core{} {}", cores.size() == 1 ? "" : "s", format_cpu_list(cores));
}

std::string bandwidth(const Figure& figure) {
  return figure.value ? fmt::format("{:.4g} GB/s ({})", *figure.value / 1e9, figure.source)
                      : fmt::format("unknown ({})", figure.source);
}

std::string network_rate(const Figure& figure) {
  return figure.value ? fmt::format("{:.4g} Gbit/s = {:.4g} GB/s ({})", *figure.value * 8 / 1e9, *figure.value / 1e9,
                                    figure.source)
                      : fmt::format("rate unknown ({})", figure.source);
}

/// "L3 32 MiB for 2 cores; L2 1 MiB, L1 32 KiB for 1 core": one entry per kind of cache in the package.
std::string caches_of(const Machine& machine, const std::vector<int>& cores) {
  std::vector<std::string> kinds;
  for (const Cache& cache : machine.caches) {
    if (!std::ranges::includes(cores, cache.cores)) continue;
    std::string kind = fmt::format("L{} {} per {}", cache.level, binary(cache.bytes),
                                   cache.cores.size() == 1 ? "core" : count(cache.cores.size(), "core"));
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(std::move(kind));
  }
  return fmt::format("{}", fmt::join(kinds, ", "));
}

std::string numa_line(const Machine& machine, const NumaNode& node) {
  std::string line = fmt::format("NUMA node {}: {}, {}", node.id, binary(node.memory_bytes), core_list(node.cores));
  const std::string name = fmt::format("numa:{}", node.id);
  for (const Link& link : machine.links) {
    if (link.kind != LinkKind::Memory || link.from != name || link.to.starts_with("numa:")) continue;
    if (link.bytes_per_s.value) line += ", " + bandwidth(link.bytes_per_s);
    if (link.latency_s.value)
      line += fmt::format(", {:.0f} ns ({})", *link.latency_s.value * 1e9, link.latency_s.source);
  }
  return line;
}

void add_processors(const Machine& machine, Branch& root) {
  for (const Package& package : machine.packages) {
    Branch& branch = root.add(fmt::format("package {}: {}{}{}", package.id, package.model,
                                          package.model.empty() ? "" : ", ", core_list(package.cores)));
    if (const std::string caches = caches_of(machine, package.cores); !caches.empty()) branch.add("caches: " + caches);
    for (const NumaNode& node : machine.numa_nodes) {
      if (node.package == package.id) branch.add(numa_line(machine, node));
    }
  }
  for (const NumaNode& node : machine.numa_nodes) {
    if (node.package < 0) root.add(numa_line(machine, node));
  }
}

void add_pci(const Machine& machine, Branch& root) {
  if (machine.pci_devices.empty()) return;
  Branch& branch = root.add("PCI devices that move data");
  for (const PciDevice& device : machine.pci_devices) {
    const auto link = std::ranges::find(machine.links, "pci:" + device.address, &Link::from);
    const std::string id = fmt::format("{:04x}:{:04x}", device.vendor_id, device.device_id);
    branch.add(fmt::format("{} {}: {}{}{}, link {}", device.address, name_of(device.kind),
                           device.name.empty() ? id : device.name,
                           device.numa_node < 0 ? "" : fmt::format(", NUMA node {}", device.numa_node),
                           device.parent.empty() ? "" : ", below " + device.parent,
                           link == machine.links.end() ? "unknown" : bandwidth(link->bytes_per_s)));
  }
}

std::string gpu_line(const Gpu& gpu) {
  std::vector<std::string> facts{fmt::format("{} at {}", gpu.name.empty() ? "unnamed" : gpu.name, gpu.pci)};
  if (gpu.numa_node >= 0) facts.push_back(fmt::format("NUMA node {}", gpu.numa_node));
  if (gpu.memory_bytes > 0) facts.push_back(binary(gpu.memory_bytes));
  if (gpu.mig != MigMode::Unknown) facts.push_back(fmt::format("MIG {}", name_of(gpu.mig)));
  if (gpu.nvlinks >= 0) {
    facts.push_back(count(static_cast<std::size_t>(gpu.nvlinks), "NVLink"));
    if (gpu.nvlink_generation > 0) facts.back() += fmt::format(" of generation {}", gpu.nvlink_generation);
  }
  if (!gpu.uuid.empty()) facts.push_back(gpu.uuid);
  return fmt::format("{}", fmt::join(facts, ", "));
}

std::string nvlinks(int width) { return count(static_cast<std::size_t>(width), "NVLink"); }

/// NVLinks once, at their first end: those to the NVSwitches together, as these are one fabric.
void add_nvlinks(const Machine& machine, std::string_view part, Branch& branch) {
  int switches = 0;
  Link together{.bytes_per_s = Figure::of(0, ""), .width = 0};
  for (const Link& link : machine.links) {
    if (link.kind != LinkKind::NvLink || link.from != part) continue;
    if (!link.to.starts_with("nvswitch:")) {
      branch.add(fmt::format("{} to {}: {}", nvlinks(link.width), link.to, bandwidth(link.bytes_per_s)));
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
  if (switches == 0) return;
  branch.add(fmt::format("{} to {}: {}", nvlinks(together.width),
                         count(static_cast<std::size_t>(switches), "NVSwitch", "NVSwitches"),
                         bandwidth(together.bytes_per_s)));
}

void add_gpus(const Machine& machine, Branch& root) {
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    Branch& branch = root.add(fmt::format("GPU {}: {}", i, gpu_line(machine.gpus[i])));
    add_nvlinks(machine, fmt::format("gpu:{}", i), branch);
  }
  for (std::size_t i = 0; i < machine.nvswitches.size(); ++i) {
    const std::string& pci = machine.nvswitches[i].pci;
    root.add(fmt::format("NVSwitch {}: {}", i, pci.empty() ? "not shown by this machine" : "at " + pci));
  }
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

std::string nic_line(const Nic& nic) {
  std::vector<std::string> facts;
  facts.push_back(nic.loopback ? "loopback" : std::string(name_of(nic.kind)));
  if (!nic.driver.empty()) facts.back() += fmt::format(" ({})", nic.driver);
  facts.emplace_back(nic.running ? "running" : nic.up ? "up without a link" : "down");
  for (const NicAddress& address : nic.addresses) facts.push_back(fmt::format("{}/{}", address.text, address.prefix));
  if (!nic.rdma.device.empty()) facts.push_back(rdma_fact(nic));
  if (nic.numa_node >= 0) facts.push_back(fmt::format("NUMA node {}", nic.numa_node));
  facts.push_back(network_rate(nic.bytes_per_s));
  return fmt::format("{}: {}", nic.name, fmt::join(facts, ", "));
}

}  // namespace

std::string to_text(const Machine& machine) {
  Branch root{
      fmt::format("{}: {} {}, {} of memory, {}, {} usable", machine.host_name, machine.system, machine.architecture,
                  machine.memory_bytes == 0 ? "an unknown amount" : binary(machine.memory_bytes),
                  count(machine.cores.size(), "core"), machine.usable_cores),
      {}};
  root.add("identity: " + machine.identity);
  add_processors(machine, root);
  add_pci(machine, root);
  add_gpus(machine, root);
  Branch& network = root.add("network");
  for (const Nic& nic : machine.nics) network.add(nic_line(nic));
  if (machine.nics.empty()) network.add("no interfaces");
  if (const auto lines = distance_matrix(machine); !lines.empty()) {
    Branch& distances = root.add("distances");
    for (const std::string& line : lines) distances.add(line);
  }
  for (const PeerTable& table : peer_tables(machine)) {
    Branch& peers = root.add("peer access between GPUs: " + table.by);
    for (const std::string& line : table.lines) peers.add(line);
  }
  if (!machine.unseen.empty()) {
    Branch& unseen = root.add("not seen");
    for (const Unseen& gap : machine.unseen) unseen.add(fmt::format("{}: {}", gap.what, gap.why));
  }
  std::string out;
  render(root, "", out);
  return out;
}

std::string to_text(const Cluster& cluster) {
  std::string out = fmt::format("{} on {}\n", count(cluster.ranks.size(), "rank"), count(cluster.hosts.size(), "host"));
  const auto groups = cluster.groups_by_host();
  for (std::size_t h = 0; h < groups.size(); ++h) {
    std::map<int, std::vector<int>> by_node;
    for (const int r : groups[h]) by_node[cluster.ranks[static_cast<std::size_t>(r)].numa_node].push_back(r);
    std::string line = fmt::format("host {} {}: ranks {}", h, cluster.hosts[h].host_name, format_cpu_list(groups[h]));
    if (by_node.size() > 1) {
      std::vector<std::string> nodes;
      nodes.reserve(by_node.size());
      for (const auto& [node, ranks] : by_node) {
        nodes.push_back(node < 0 ? fmt::format("not bound: {}", format_cpu_list(ranks))
                                 : fmt::format("NUMA node {}: {}", node, format_cpu_list(ranks)));
      }
      line += fmt::format(" ({})", fmt::join(nodes, "; "));
    }
    out += fmt::format(
        "{}, {} usable\n", line,
        count(static_cast<std::size_t>(cluster.ranks[static_cast<std::size_t>(groups[h].front())].usable_cores),
              "core"));
  }
  return out;
}

}  // namespace sinew
