#include "machine_dot.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/tools/draw/printable.hpp>
#include <sinew/topology/format/text/part_text.hpp>

namespace sinew::tools {
namespace {

/// As a string of DOT's; "\n" begins a new line of a label.
std::string dot_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : draw::printable(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string label(const std::vector<std::string>& lines) {
  std::vector<std::string> parts;
  for (const std::string& line : lines) {
    const std::string text = dot_quoted(line);
    parts.push_back(text.substr(1, text.size() - 2));
  }
  return fmt::format("\"{}\"", fmt::join(parts, "\\n"));
}

class Graph {
 public:
  explicit Graph(const Machine& machine) : machine_(machine) {}

  std::string text() {
    out_ = fmt::format("graph {} {{\n  label={};\n", dot_quoted(machine_.host_name), dot_quoted(machine_.host_name));
    out_ += "  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n";
    out_ += "  edge [fontname=\"sans-serif\", fontsize=10];\n";
    add_memory();
    add_devices();
    for (const Link& link : machine_.links) add_link(link);
    add_unknown_links();
    return out_ + "}\n";
  }

 private:
  void node(const std::string& name, const std::vector<std::string>& lines, std::string_view tooltip,
            std::string_view fill = {}) {
    nodes_.insert(name);
    out_ += fmt::format("  {} [label={}, tooltip={}", dot_quoted(name), label(lines), dot_quoted(tooltip));
    if (!fill.empty()) out_ += fmt::format(", style=\"rounded,filled\", fillcolor={}", dot_quoted(fill));
    out_ += "];\n";
  }

  void edge(const std::string& from, const std::string& to, std::string_view text, std::string_view tooltip) {
    for (const std::string& end : {from, to}) {
      if (!nodes_.contains(end)) node(end, {end}, end);
    }
    out_ += fmt::format("  {} -- {} [label={}, tooltip={}];\n", dot_quoted(from), dot_quoted(to), dot_quoted(text),
                        dot_quoted(tooltip));
  }

  void add_memory() {
    const auto add_node = [&](const NumaNode& n) {
      node(fmt::format("numa:{}", n.id),
           {fmt::format("NUMA node {}", n.id), memory_text(machine_, n), core_list(n.cores)}, numa_line(machine_, n));
    };
    std::set<int> framed;
    for (const Package& package : machine_.packages) {
      out_ += fmt::format("  subgraph \"cluster_package_{}\" {{\n  label={};\n", package.id,
                          label({fmt::format("package {}", package.id), package.model}));
      for (const NumaNode& n : machine_.numa_nodes) {
        if (n.package != package.id) continue;
        add_node(n);
        framed.insert(n.id);
      }
      out_ += "  }\n";
    }
    for (const NumaNode& n : machine_.numa_nodes) {
      if (!framed.contains(n.id)) add_node(n);
    }
  }

  /// A PCI device that is a GPU or an interface is the same node; of several interfaces it is the first.
  void add_devices() {
    for (std::size_t i = 0; i < machine_.gpus.size(); ++i) {
      const Gpu& gpu = machine_.gpus[i];
      const std::string name = fmt::format("gpu:{}", i);
      if (!gpu.pci.empty()) same_.try_emplace("pci:" + gpu.pci, name);
      node(name, {fmt::format("GPU {}", i), gpu.name}, gpu_line(gpu), "#d2ecdf");
    }
    for (const Nic& nic : machine_.nics) {
      const std::string name = "nic:" + nic.name;
      if (!nic.pci.empty()) same_.try_emplace("pci:" + nic.pci, name);
      node(name, {nic.name, std::string(name_of(nic.kind))}, nic_line(nic), "#d5e6f5");
    }
    for (std::size_t i = 0; i < machine_.nvswitches.size(); ++i) {
      node(fmt::format("nvswitch:{}", i), {fmt::format("NVSwitch {}", i)}, nvswitch_line(machine_.nvswitches[i]));
    }
    for (const PciDevice& device : machine_.pci_devices) {
      if (same_.contains("pci:" + device.address)) continue;
      node("pci:" + device.address, {std::string(name_of(device.kind)), device.address}, pci_line(machine_, device));
    }
    for (const Nic& nic : machine_.nics) {
      const auto first = same_.find("pci:" + nic.pci);
      if (first != same_.end() && first->second != "nic:" + nic.name)
        edge("nic:" + nic.name, first->second, "same device", nic.pci);
    }
  }

  std::string node_of(const std::string& part) const {
    const auto found = same_.find(part);
    return found == same_.end() ? part : found->second;
  }

  void add_link(const Link& link) {
    if (link.to.starts_with("package:")) return;  // its memory, which the node's tooltip tells
    std::string text = std::string(name_of(link.kind));
    if (link.kind == LinkKind::NvLink || link.kind == LinkKind::Xgmi)
      text = counted(static_cast<std::size_t>(link.width), gpu_link_name(link.kind));
    text += link.bytes_per_s.value ? fmt::format(" {:.4g} GB/s", *link.bytes_per_s.value / 1e9) : " rate unknown";
    edge(node_of(link.from), node_of(link.to), text, rate_text(link.bytes_per_s));
    linked_.insert(link.from);
  }

  /// Where a PCI device hangs is known, though not how fast its link is.
  void add_unknown_links() {
    for (const PciDevice& device : machine_.pci_devices) {
      const std::string part = "pci:" + device.address;
      if (linked_.contains(part)) continue;
      const std::string above = !device.parent.empty()  ? "pci:" + device.parent
                                : device.numa_node >= 0 ? fmt::format("numa:{}", device.numa_node)
                                                        : "host";
      edge(node_of(part), node_of(above), "PCI rate unknown", pci_line(machine_, device));
    }
  }

  const Machine& machine_;
  std::string out_;
  std::set<std::string> nodes_;
  std::set<std::string> linked_;
  std::map<std::string, std::string> same_;
};

}  // namespace

std::string machine_dot(const Machine& machine) { return Graph(machine).text(); }

}  // namespace sinew::tools
