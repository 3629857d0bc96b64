#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/virtual_cluster/imagined_world.hpp>
#include <sinew/core/error.hpp>

namespace sinew {

std::shared_ptr<const ImaginedWorld> imagine(ImaginedCluster on) {
  if (on.network.ranks() > kMostImaginedRanks) {
    throw Error(Code::InvalidArgument,
                fmt::format("'{}' has {} ranks: expected {} at most, as they are threads of one process", on.name,
                            on.network.ranks(), kMostImaginedRanks));
  }
  Cluster cluster = on.cluster();
  return std::make_shared<const ImaginedWorld>(ImaginedWorld{std::move(on), std::move(cluster)});
}

}  // namespace sinew
