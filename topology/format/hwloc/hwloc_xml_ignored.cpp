#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <sinew/topology/format/hwloc/hwloc_xml_ignored.hpp>

namespace sinew {
namespace {

/// A name that hwloc 1 to 3 writes. No meaning: it is read.
struct HwlocName {
  std::string_view name;
  const char* meaning = nullptr;
};

template <std::size_t N>
const HwlocName* find_name(const std::array<HwlocName, N>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name, &HwlocName::name);
  return found == names.end() ? nullptr : &*found;
}

constexpr auto kHwlocElements = std::to_array<HwlocName>({
    {"topology"},
    {"object"},
    {"info"},
    {"page_type", "how much of the memory has pages of which size"},
    {"distances2"},
    {"distances2hetero", "how far objects of several types are from each other"},
    {"distances", "how far objects are from each other, as hwloc 1 wrote it"},
    {"latency"},
    {"indexes"},
    {"u64values"},
    {"memattr"},
    {"memattr_value"},
    {"cpukind", "which cores are of the same kind"},
    {"support", "what hwloc could find out"},
    {"userdata", "what the program that wrote the file added"},
});

constexpr auto kHwlocTypes = std::to_array<HwlocName>({
    {"Machine"},
    {"System"},
    {"Package"},
    {"Socket"},
    {"NUMANode"},
    {"Core"},
    {"PU"},
    {"Bridge"},
    {"PCIDev"},
    {"OSDev"},
    {"Cache"},
    {"L1Cache"},
    {"L2Cache"},
    {"L3Cache"},
    {"L4Cache"},
    {"L5Cache"},
    {"L1iCache", "instruction caches move no messages"},
    {"L2iCache", "instruction caches move no messages"},
    {"L3iCache", "instruction caches move no messages"},
    {"MemCache", "caches in front of memory are not described"},
    {"Die", "dies of a package are not described"},
    {"Group", "groups of objects are not described"},
    {"Misc", "what a person or a program added"},
});

constexpr auto kHwlocAttributes = std::to_array<HwlocName>({
    {"type"},
    {"os_index"},
    {"os_level"},
    {"gp_index"},
    {"id"},
    {"cpuset"},
    {"complete_cpuset"},
    {"online_cpuset"},
    {"allowed_cpuset"},
    {"nodeset"},
    {"complete_nodeset"},
    {"allowed_nodeset"},
    {"name"},
    {"local_memory"},
    {"cache_size"},
    {"cache_linesize"},
    {"depth"},
    {"bridge_type"},
    {"bridge_pci"},
    {"pci_busid"},
    {"pci_type"},
    {"pci_link_speed"},
    {"osdev_type"},
    {"subtype", "hwloc's name for the variety of the object"},
    {"cache_associativity", "how many places of the cache a line may have"},
    {"cache_type", "whether the cache holds data, instructions or both"},
    {"kind", "why hwloc made the group"},
    {"subkind", "why hwloc made the group"},
    {"dont_merge", "how hwloc treats the group"},
    {"forced_efficiency", "how fast cores of this kind are"},
});

constexpr auto kHwlocInfos =
    std::to_array<std::string_view>({"HostName", "OSName", "OSRelease", "Architecture", "CPUModel", "PCIVendor",
                                     "PCIDevice", "Address", "Port", "GPUModel", "NVIDIAUUID", "CUDAGlobalMemorySize"});

/// OSDev's types that are read: GPU, network, OpenFabrics and coprocessor.
constexpr auto kHwlocDevices = std::to_array<std::string_view>({"1", "2", "3", "5"});

bool is_read_info(std::string_view name) {
  const bool of_port = name.starts_with("Port") && (name.ends_with("State") || name.ends_with("GID0"));
  return of_port || std::ranges::find(kHwlocInfos, name) != kHwlocInfos.end();
}

class HwlocLeftOvers {
 public:
  HwlocLeftOvers(const XmlReader& xml, IgnoredList& ignored) : xml_(xml), ignored_(ignored) {}

  void look_at(pugi::xml_node node) {
    const std::string_view element = node.name();
    const HwlocName* known = find_name(kHwlocElements, element);
    if (known == nullptr) {
      add(node, fmt::format("<{}> in <{}>", element, node.parent().name()), kUnknown, false);
      return;
    }
    if (known->meaning != nullptr) {
      add(node, fmt::format("<{}>", element), known->meaning, true);
      return;
    }
    if (element == "object") object(node);
    if (element == "info" && !is_read_info(node.attribute("name").value())) {
      add(node, fmt::format("info {} of <{}>", node.attribute("name").value(), type_of(node.parent())),
          "what the writer noted beside the object", true);
    }
    if (element == "distances2" && std::string_view(node.attribute("type").value()) != "NUMANode") {
      add(node, fmt::format("distances {} between {}", node.attribute("name").value(), node.attribute("type").value()),
          "only distances of NUMA nodes are read", true);
      return;
    }
    if (element == "memattr" && !is_read_memory(node.attribute("name").value())) {
      add(node, fmt::format("memory attribute {}", node.attribute("name").value()),
          "only bandwidth and latency are read", true);
      return;
    }
    for (const pugi::xml_node child : node.children()) {
      if (child.type() == pugi::node_element) look_at(child);
    }
  }

 private:
  static constexpr const char* kUnknown = "not understood";

  static std::string type_of(pugi::xml_node object) {
    const std::string_view type = object.attribute("type").value();
    return std::string(type.empty() ? object.name() : type);
  }
  static bool is_read_memory(std::string_view name) { return name == "Bandwidth" || name == "Latency"; }

  void object(pugi::xml_node node) {
    const std::string type = type_of(node);
    const HwlocName* known = find_name(kHwlocTypes, type);
    if (known == nullptr || known->meaning != nullptr) {
      add(node, fmt::format("<object type=\"{}\">", type), known == nullptr ? kUnknown : known->meaning,
          known != nullptr);
    }
    const std::string_view device = node.attribute("osdev_type").value();
    if (type == "OSDev" && std::ranges::find(kHwlocDevices, device) == kHwlocDevices.end()) {
      add(node, fmt::format("OSDev of type {}", device), "neither a network nor a GPU", true);
    }
    for (const pugi::xml_attribute attribute : node.attributes()) {
      const HwlocName* name = find_name(kHwlocAttributes, attribute.name());
      if (name != nullptr && name->meaning == nullptr) continue;
      add(node, fmt::format("attribute {} of <object>", attribute.name()), name == nullptr ? kUnknown : name->meaning,
          name != nullptr);
    }
  }

  void add(pugi::xml_node node, const std::string& what, const char* why, bool known) {
    ignored_.add(xml_.line_of(node), what, why, known);
  }

  const XmlReader& xml_;
  IgnoredList& ignored_;
};

}  // namespace

void list_hwloc_ignored(const XmlReader& xml, IgnoredList& ignored) {
  HwlocLeftOvers(xml, ignored).look_at(xml.root());
}

}  // namespace sinew
