#pragma once

#include <functional>
#include <memory>

#include <sinew/collectives/virtual_cluster/virtual_world.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/core/base/export.hpp>

namespace sinew {

/// Makes a World of as many threads as `on` has ranks and runs `body` on each of them.
/// Errors: what the ranks threw, after all have ended: of several the reason, not that others lost a rank by it.
SINEW_API void run_virtual_ranks(std::shared_ptr<const VirtualWorld> on, WorldOptions options,
                                 const std::function<void(World&)>& body);

}  // namespace sinew
