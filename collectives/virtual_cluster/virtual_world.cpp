#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/virtual_cluster/virtual_world.hpp>
#include <sinew/core/error.hpp>

namespace sinew {

std::shared_ptr<const VirtualWorld> make_virtual_world(VirtualCluster on) {
  if (on.network.ranks() > kMostVirtualRanks) {
    throw Error(Code::InvalidArgument,
                fmt::format("'{}' has {} ranks: expected {} at most, as they are threads of one process", on.name,
                            on.network.ranks(), kMostVirtualRanks));
  }
  Cluster cluster = on.cluster();
  return std::make_shared<const VirtualWorld>(VirtualWorld{std::move(on), std::move(cluster)});
}

}  // namespace sinew
