#pragma once

#include <sinew/core/base/export.hpp>
#include <sinew/transports/shm/model/call_costs.hpp>

namespace sinew::shm {

/// The time until the last rank has ended the call, if all ranks begin it at once.
/// A line that has been written is in its owner's cache. It goes to one cache at a time, and in each cache to one core
/// at a time, each time for as long as HostCosts::line_s says. Bytes that leave a cache take their time on the memory
/// of their NUMA node, and on the link between nodes or sockets, one read after the other.
/// Cost: about 0.3 us for each step of each rank. A few of many chunks are run, and the others take as long as these.
SINEW_API Seconds simulate(const ModelCall& call, Protocol protocol, const Levels& levels, const HostCosts& costs);

}  // namespace sinew::shm
