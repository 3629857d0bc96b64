#pragma once

#include <sinew/core/config.hpp>
#include <sinew/core/export.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// Looks at this machine: hwloc for processors, memory and PCI, the kernel for network interfaces and RDMA ports, NVML,
/// where there is one, for GPUs and NVLinks. What cannot be seen is in Machine::unseen with the reason; nothing is
/// measured, no binding or setting is changed.
/// Thread: any. Cost: tens of milliseconds (PCI); one rank per host is enough, see cluster.hpp.
/// Errors: Error{System} if not even the processors can be read.
SINEW_API Machine discover(const Config& config);
/// With the configuration of the environment.
SINEW_API Machine discover();

}  // namespace sinew
