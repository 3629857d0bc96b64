#pragma once

#include <memory>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/cluster.hpp>
#include <sinew/topology/virtual_cluster.hpp>

namespace sinew {

/// Threads of one process are no more than this.
inline constexpr int kMostVirtualRanks = 128;

/// What ranks that are threads take themselves to run on: one object for all of them.
struct VirtualWorld {
  VirtualCluster on;
  Cluster cluster;
};

/// Errors: Error{InvalidArgument} for more ranks than kMostVirtualRanks.
SINEW_API std::shared_ptr<const VirtualWorld> make_virtual_world(VirtualCluster on);

}  // namespace sinew
