#pragma once

#include <filesystem>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// Whether this process can use the RDMA devices of machine.nics, by opening each through libibverbs: ports of those
/// that open get their MTU, those that do not are in Machine::unseen with the reason. `root`: of the /sys and /dev that
/// these devices are in. Cost: opens every device once; where there are none, nothing is loaded.
SINEW_API void read_rdma_access(const std::filesystem::path& root, Machine& machine);

/// Why whoever looked at `machine` could not use this device; empty: nothing was found against it.
SINEW_API std::string rdma_obstacle(const Machine& machine, const std::string& device);

}  // namespace sinew
