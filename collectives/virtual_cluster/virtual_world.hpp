#pragma once

#include <memory>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/cluster.hpp>
#include <sinew/topology/virtual_cluster.hpp>

namespace sinew {

/// The most ranks, since all are threads of one process.
inline constexpr int kMostVirtualRanks = 128;

/// The virtual cluster on which ranks that are threads act as if they ran. All ranks share one object.
struct VirtualWorld {
  VirtualCluster on;
  Cluster cluster;
};

/// Errors: Error{InvalidArgument} for more ranks than kMostVirtualRanks.
SINEW_API std::shared_ptr<const VirtualWorld> make_virtual_world(VirtualCluster on);

}  // namespace sinew
