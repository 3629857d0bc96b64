#pragma once

#include <span>

#include <sinew/core/base/export.hpp>
#include <sinew/core/transport/device_links.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// The links of a GPU, by the machine that it is in. `gpu`: index in Machine::gpus. `nics`: those that ranks may use
/// (nics_for_ranks()), as indices in Machine::nics. DeviceLinks::host is left for the caller.
/// The rates are what the parts of the path carry of users' data, and the least of them counts.
/// Precondition: the GPU is there.
SINEW_API DeviceLinks links_of_gpu(const Machine& machine, int gpu, std::span<const int> nics);

}  // namespace sinew
