#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/virtual_cluster/virtual_world.hpp>
#include <sinew/core/error.hpp>
#include <sinew/transports/registry.hpp>

namespace sinew {
namespace {

VirtualWorld virtual_world(VirtualCluster on) {
  if (on.network.ranks() > kMostVirtualRanks) {
    throw Error(Code::InvalidArgument,
                fmt::format("'{}' has {} ranks: expected {} at most, as they are threads of one process", on.name,
                            on.network.ranks(), kMostVirtualRanks));
  }
  Cluster cluster = on.cluster();
  return {.on = std::move(on), .cluster = std::move(cluster)};
}

}  // namespace

std::shared_ptr<const VirtualWorld> make_virtual_world(VirtualCluster on) {
  return std::make_shared<const VirtualWorld>(virtual_world(std::move(on)));
}

std::shared_ptr<const VirtualWorld> make_virtual_world_with_devices(VirtualCluster on,
                                                                    const std::vector<std::string>& transports) {
  if (on.machine.gpus.empty()) {
    throw Error(Code::InvalidArgument,
                fmt::format("'{}': expected a machine with GPUs, for plans of their memory", on.name));
  }
  VirtualWorld made = virtual_world(std::move(on));
  made.plans_devices = true;
  for (const std::string_view name : device_offload_names()) {
    if (transports.empty() || std::ranges::find(transports, name) != transports.end())
      made.device_offloads.emplace_back(name);
  }
  return std::make_shared<const VirtualWorld>(std::move(made));
}

}  // namespace sinew
