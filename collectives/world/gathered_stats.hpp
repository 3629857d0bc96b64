#pragma once

#include <sinew/collectives/call_stats.hpp>
#include <sinew/collectives/world/communicator_state.hpp>

namespace sinew {

/// Implements Communicator::stats.
CommunicatorStats gather_stats(CommunicatorState& s, const CallOptions& options);

}  // namespace sinew
