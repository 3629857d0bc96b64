#pragma once

#include <memory>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/cluster.hpp>
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

}  // namespace sinew
