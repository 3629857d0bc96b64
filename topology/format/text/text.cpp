#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/host/cpu_list.hpp>
#include <sinew/topology/format/text/distance_matrix.hpp>
#include <sinew/topology/format/text/part_text.hpp>
#include <sinew/topology/format/text/peer_tables.hpp>
#include <sinew/topology/format/text/text.hpp>

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

std::string quota_text(const CpuQuota& quota) {
  return fmt::format("CPU quota: {:.3g} cores (set by {})", quota.cores, quota.where);
}

void add_processors(const Machine& machine, Branch& root) {
  for (const Package& package : machine.packages) {
    Branch& branch = root.add(fmt::format("package {}: {}{}{}", package.id, package.model,
                                          package.model.empty() ? "" : ", ", core_list(package.cores)));
    if (const std::string caches = caches_line(machine, package.cores); !caches.empty())
      branch.add("caches: " + caches);
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
  for (const PciDevice& device : machine.pci_devices) branch.add(pci_line(machine, device));
}

void add_gpus(const Machine& machine, Branch& root) {
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    Branch& branch = root.add(fmt::format("GPU {}: {}", i, gpu_line(machine.gpus[i])));
    for (std::string& line : gpu_link_lines(machine, fmt::format("gpu:{}", i))) branch.add(std::move(line));
  }
  for (std::size_t i = 0; i < machine.nvswitches.size(); ++i)
    root.add(fmt::format("NVSwitch {}: {}", i, nvswitch_line(machine.nvswitches[i])));
}

}  // namespace

std::string to_text(const Machine& machine) {
  Branch root{
      fmt::format("{}: {} {}, {} of memory, {}, {} usable", machine.host_name, machine.system, machine.architecture,
                  machine.memory_bytes == 0 ? "an unknown amount" : binary_text(machine.memory_bytes),
                  counted(machine.cores.size(), "core"), machine.usable_cores),
      {}};
  root.add("identity: " + machine.identity);
  if (machine.cpu_quota) root.add(quota_text(*machine.cpu_quota));
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
  if (!machine.ignored.empty()) {
    Branch& ignored = root.add("in the file, and left out");
    for (std::string& line : ignored_lines(machine)) ignored.add(std::move(line));
  }
  std::string out;
  render(root, "", out);
  return out;
}

std::string to_text(const Cluster& cluster) {
  std::string out =
      fmt::format("{} on {}\n", counted(cluster.ranks.size(), "rank"), counted(cluster.hosts.size(), "host"));
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
    const auto usable =
        static_cast<std::size_t>(cluster.ranks[static_cast<std::size_t>(groups[h].front())].usable_cores);
    const auto& quota = cluster.hosts[h].cpu_quota;
    out += fmt::format("{}, {} usable{}\n", line, counted(usable, "core"), quota ? ", " + quota_text(*quota) : "");
  }
  return out;
}

}  // namespace sinew
