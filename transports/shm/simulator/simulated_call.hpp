#pragma once

#include <sinew/core/base/export.hpp>
#include <sinew/transports/shm/model/call_costs.hpp>

namespace sinew::shm {

/// Returns the time until the last rank has ended the call, if all ranks begin it at once.
/// A line that has been written is in its owner's cache. It goes to one cache at a time, and in each cache to one core
/// at a time. Each of these moves takes HostCosts::line_s. Bytes that leave a cache pass through the memory of their
/// NUMA node, and through the link between nodes or sockets if they cross one. Each of these serves one read after the
/// other.
/// Cost: about 0.3 us for each step of each rank. A few of many chunks are run, and the others take as long as these.
SINEW_API Seconds simulate(const ModelCall& call, Protocol protocol, const Levels& levels, const HostCosts& costs);

}  // namespace sinew::shm
