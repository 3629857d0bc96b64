#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <sinew/collectives/world.hpp>
#include <sinew/core/export.hpp>
#include <sinew/topology/imagined_cluster.hpp>

namespace sinew {

/// Threads of one process are no more than this.
inline constexpr int kMostImaginedRanks = 128;

/// What ranks that are threads take themselves to run on: one object for all of them.
struct ImaginedWorld {
  ImaginedCluster on;
  Cluster cluster;
};

/// Errors: Error{InvalidArgument} for more ranks than kMostImaginedRanks.
SINEW_API std::shared_ptr<const ImaginedWorld> imagine(ImaginedCluster on);

/// Makes a World of as many threads as `on` has ranks and runs `body` on each of them.
/// Errors: what the ranks threw, after all have ended: of several the reason, not that others lost a rank by it.
SINEW_API void run_imagined(std::shared_ptr<const ImaginedWorld> on, WorldOptions options,
                            const std::function<void(World&)>& body);

}  // namespace sinew
