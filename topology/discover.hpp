#pragma once

#include <filesystem>

#include <sinew/core/base/export.hpp>
#include <sinew/core/config.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// Looks at this machine: hwloc for processors, memory and PCI, the kernel for network interfaces and RDMA ports,
/// libibverbs for whether these can be used, NVML for GPUs, NVLinks and peer access; both where they are. What cannot
/// be seen is in Machine::unseen with the reason; nothing is measured, no binding or setting is changed.
/// Thread: any.
/// Errors: Error{System} if not even the processors can be read.
/// Cost:   tens of milliseconds (PCI); one rank per host is enough, see cluster.hpp.
SINEW_API Machine discover(const Config& config);
/// The same readers over a folder with the /sys and /proc of another machine. Such a folder holds neither addresses nor
/// what NVML and libibverbs say: those are loaded as ever, so put fakes of them in their place.
/// Thread: none may use the environment beside it, as hwloc learns of the folder there.
SINEW_API Machine discover(const Config& config, const std::filesystem::path& root);
/// With the configuration of the environment.
SINEW_API Machine discover();

}  // namespace sinew
