#pragma once

#include <cstddef>

#include <sinew/collectives/memory.hpp>
#include <sinew/collectives/world/communicator_state.hpp>

namespace sinew {

/// Implements Communicator::allocate.
Memory allocate_on_device(CommunicatorState& s, std::size_t bytes, const CallOptions& options);

}  // namespace sinew
