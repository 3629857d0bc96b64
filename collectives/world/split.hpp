#pragma once

#include <memory>
#include <string_view>

#include <sinew/collectives/communicator.hpp>
#include <sinew/collectives/world/communicator_state.hpp>

namespace sinew {

/// As Communicator::split: what the ranks of `whole` with this color get; null where `color` is below 0.
std::shared_ptr<CommunicatorState> split(Communicator& whole, CommunicatorState& state, int color, int key,
                                         const CallOptions& options, std::string_view name);

}  // namespace sinew
