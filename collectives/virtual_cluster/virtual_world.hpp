#pragma once

#include <memory>
#include <string>
#include <vector>

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
  /// True: calls on memory of the ranks' GPUs can be planned. They cannot run, since there is no such memory.
  bool plans_devices = false;
  std::vector<std::string> device_offloads{};  ///< the modules whose offloads take part in such plans
};

/// Errors: Error{InvalidArgument} for more ranks than kMostVirtualRanks.
SINEW_API std::shared_ptr<const VirtualWorld> make_virtual_world(VirtualCluster on);
/// The same, with plans for memory of GPUs. `transports`: the modules that these plans may use, as in
/// Config::transports; empty: all that this sinew has.
/// Errors: also InvalidArgument if the machine has no GPU.
SINEW_API std::shared_ptr<const VirtualWorld> make_virtual_world_with_devices(
    VirtualCluster on, const std::vector<std::string>& transports);

}  // namespace sinew
