#pragma once

#include <filesystem>

#include <sinew/topology/discover/hwloc_topology.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// Fills packages, NUMA nodes, caches, cores, PCI devices, GPUs and the links among them from hwloc. A core is marked
/// usable if cgroup and affinity of this process allow one of its threads.
/// hwloc honours its own variables (HWLOC_XMLFILE, HWLOC_SYNTHETIC), so a machine that is elsewhere can be shown.
/// `root`: "/", or a folder with the /sys and /proc of another machine. hwloc learns of such a one through the
/// environment (HWLOC_FSROOT), which is changed meanwhile.
/// Errors: Error{System} if hwloc cannot read the processors.
void read_processors(const std::filesystem::path& root, Machine& machine);

/// The same of a topology that is loaded, this machine's or another's.
void read_processors(hwloc_topology_t topology, Machine& machine);

}  // namespace sinew
