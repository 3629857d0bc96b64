#pragma once

#include <sinew/core/base/export.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// What NVIDIA's driver says of its GPUs, through NVML: adds those that PCI did not show, and to all names, memory,
/// UUID, MIG, NVLinks, with the NVSwitches that these lead to, and who may use whose memory. What it does not say is in
/// Machine::unseen; without the library that is all, if there is an NVIDIA GPU. Cost: starts and ends NVML, tens of
/// milliseconds where there is one.
SINEW_API void read_nvml(Machine& machine);

}  // namespace sinew
