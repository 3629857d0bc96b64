#pragma once

#include <sinew/topology/discover/hwloc_topology.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// Network interfaces and RDMA ports that hwloc lists, and what it knows of the GPUs in machine.gpus; for machines that
/// are elsewhere: of this one sysfs and NVML tell more.
void read_os_devices(hwloc_topology_t topology, Machine& machine);

}  // namespace sinew
