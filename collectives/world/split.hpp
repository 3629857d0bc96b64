#pragma once

#include <memory>
#include <string_view>

#include <sinew/collectives/communicator.hpp>
#include <sinew/collectives/world/communicator_state.hpp>

namespace sinew {

/// Implements Communicator::split. Returns null if `color` is below 0.
std::shared_ptr<CommunicatorState> split(Communicator& whole, CommunicatorState& state, int color, int key,
                                         const CallOptions& options, std::string_view name);

}  // namespace sinew
