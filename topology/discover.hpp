#pragma once

#include <filesystem>

#include <sinew/core/base/export.hpp>
#include <sinew/core/config.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// Discovers this machine. It asks hwloc for processors, memory and PCI, and the kernel for network interfaces and RDMA
/// ports. Installed libibverbs tells which RDMA ports can be used. Installed NVML tells the GPUs, NVLinks and peer
/// access.
/// Machine::unseen lists the parts that cannot be discovered, with the reasons. Nothing is measured or changed.
/// Thread: any.
/// Errors: Error{System} if not even the processors can be read.
/// Cost:   tens of milliseconds, for PCI. One rank of a host is enough, see gather_cluster.hpp.
SINEW_API Machine discover(const Config& config);
/// Discovers another machine from a folder with its /sys and /proc. The folder holds no addresses, and no data of NVML
/// and libibverbs. These libraries are loaded as usual, so tests put fakes in their place.
/// Thread: no other thread may use the environment meanwhile, since hwloc reads the folder's name from there.
SINEW_API Machine discover(const Config& config, const std::filesystem::path& root);
/// Discovers this machine with the configuration of the environment.
SINEW_API Machine discover();

}  // namespace sinew
