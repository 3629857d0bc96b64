#pragma once

#include <span>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/discover/nvml.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

namespace nvml {
/// A GPU that NVML shows.
struct KnownGpu {
  Device device = nullptr;
  int index = 0;  ///< in Machine::gpus
};
}  // namespace nvml

/// Asks NVML of every pair of GPUs, each way, and fills Machine::gpu_peers. A pair that it does not answer for stays
/// Unknown with its reason; a driver without the function leaves no pairs, and says so in Machine::unseen.
SINEW_API void read_gpu_peers(const nvml::Library& nvml, std::span<const nvml::KnownGpu> gpus, Machine& machine);

}  // namespace sinew
