#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/topology/hwloc_topology.hpp>
#include <sinew/topology/hwloc_xml.hpp>
#include <sinew/topology/network_interfaces.hpp>
#include <sinew/topology/os_devices.hpp>
#include <sinew/topology/processors.hpp>

namespace sinew {
namespace {

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
  return machine;
}

}  // namespace sinew
