#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/topology/discover/hwloc_topology.hpp>
#include <sinew/topology/discover/network_interfaces.hpp>
#include <sinew/topology/discover/os_devices.hpp>
#include <sinew/topology/discover/processors.hpp>
#include <sinew/topology/format/hwloc/hwloc_xml.hpp>
#include <sinew/topology/format/hwloc/hwloc_xml_ignored.hpp>
#include <sinew/topology/format/xml_reader.hpp>

namespace sinew {
namespace {

constexpr int kDeepest = 64;               // of a machine's objects: hwloc follows them by recursion
constexpr long long kMostIndex = 1 << 20;  // hwloc keeps a bit for each below

bool has_cores(std::string_view type) {
  return type != "Bridge" && type != "PCIDev" && type != "OSDev" && type != "Misc";
}

/// "0x00000001", "0xff,,0x00000001" or "0xf...f,0xffffff00", as hwloc writes sets.
bool is_set(std::string_view text) {
  constexpr std::size_t kMostDigits = 8;
  for (bool first = true;; first = false) {
    const std::size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    const bool hexadecimal = word.starts_with("0x") && word.size() > 2 && word.size() <= 2 + kMostDigits &&
                             word.find_first_not_of("0123456789abcdefABCDEF", 2) == std::string_view::npos;
    const bool endless = first && word == "0xf...f";
    const bool zero = !first && word.empty() && comma != std::string_view::npos;
    if (!hexadecimal && !endless && !zero) return false;
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

/// hwloc believes what it reads: a processing unit without a number costs it a gigabyte and a minute, a core without
/// the set of its processing units ends the process.
void require_plausible(const XmlReader& xml) {
  std::vector<std::pair<pugi::xml_node, int>> left = {{xml.root(), 0}};
  while (!left.empty()) {
    const auto [node, depth] = left.back();
    left.pop_back();
    if (depth > kDeepest) xml.reject(node, fmt::format("nested deeper than {} levels", kDeepest));
    const std::string type = xml.text(node, "type");
    if (type == "PU" || type == "NUMANode") xml.required_integer(node, "os_index", 0, kMostIndex);
    for (const pugi::xml_attribute a : node.attributes()) {
      if (std::string_view(a.name()).ends_with("set") && !is_set(a.value())) {
        xml.reject(node, fmt::format("{}=\"{}\": expected a set such as 0x0000000f", a.name(), a.value()));
      }
    }
    if (std::string_view(node.name()) == "object" && has_cores(type)) {
      for (const char* set : {"cpuset", "complete_cpuset"}) static_cast<void>(xml.required_text(node, set));
      const bool has_nodes = xml.root().attribute("version");  // hwloc 1 knows machines without memory nodes
      for (const char* set : {"nodeset", "complete_nodeset"}) {
        if (has_nodes) static_cast<void>(xml.required_text(node, set));
      }
    }
    for (const pugi::xml_node child : node.children()) left.emplace_back(child, depth + 1);
  }
}

HwlocTopology load(const std::string& text, const std::string& file) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw_errno("hwloc_topology_init");
  HwlocTopology topology(raw, &hwloc_topology_destroy);
  const auto refuse = [&] {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: hwloc does not read it: {}; expected XML as `lstopo FILE.xml` writes it", file,
                            std::strerror(errno)));
  };
  errno = EINVAL;
  if (hwloc_topology_set_xmlbuffer(raw, text.c_str(), static_cast<int>(text.size() + 1)) != 0) refuse();
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(raw) != 0) refuse();
  return topology;
}

std::string info_of_root(hwloc_topology_t topology, const char* key) {
  const char* value = hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology), key);
  return value == nullptr ? "" : value;
}

}  // namespace

Machine machine_from_hwloc_xml(const std::string& text, const std::string& file) {
  const XmlReader xml(text, file);
  require_plausible(xml);
  const HwlocTopology topology = load(text, file);
  Machine machine;
  machine.host_name = info_of_root(topology.get(), "HostName");
  if (machine.host_name.empty()) machine.host_name = std::filesystem::path(file).stem().string();
  machine.identity = "hwloc:" + machine.host_name;
  machine.system =
      fmt::format("{} {}", info_of_root(topology.get(), "OSName"), info_of_root(topology.get(), "OSRelease"));
  machine.architecture = info_of_root(topology.get(), "Architecture");
  read_processors(topology.get(), machine);
  machine.usable_cores = static_cast<int>(machine.cores.size());
  read_os_devices(topology.get(), machine);
  add_network_links(machine);
  IgnoredList ignored(file);
  list_hwloc_ignored(xml, ignored);
  machine.ignored = ignored.take();
  return machine;
}

}  // namespace sinew
