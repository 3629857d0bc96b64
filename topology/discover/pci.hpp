#pragma once

#include <sinew/topology/discover/hwloc_topology.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// PCI devices that move data, the bridges above them, the GPUs among them and the links that join them.
void read_pci(hwloc_topology_t topology, Machine& machine);

}  // namespace sinew
