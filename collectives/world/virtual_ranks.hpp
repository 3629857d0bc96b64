#pragma once

#include <functional>
#include <memory>

#include <sinew/collectives/virtual_cluster/virtual_world.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/core/base/export.hpp>

namespace sinew {

/// Makes a World of as many threads as `on` has ranks and runs `body` on each of them.
/// Errors: the error of a rank, after all have ended. If several threw, it is the one that caused the others.
SINEW_API void run_virtual_ranks(std::shared_ptr<const VirtualWorld> on, WorldOptions options,
                                 const std::function<void(World&)>& body);

}  // namespace sinew
