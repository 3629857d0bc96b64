#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include <sinew/collectives/virtual_cluster/planned_offload.hpp>
#include <sinew/collectives/virtual_cluster/virtual_world.hpp>
#include <sinew/collectives/world/communicator_state.hpp>
#include <sinew/collectives/world/making_offloads.hpp>
#include <sinew/collectives/world/world_state.hpp>
#include <sinew/transports/registry.hpp>

namespace sinew {
namespace {

/// Adds what these ranks would use if they were on the virtual cluster, if there is one.
void add_virtual_offloads(const WorldState& world, const Group& ranks, std::vector<NamedOffload>& to) {
  if (!world.options.virtual_world) return;
  std::ranges::move(planned_offloads(world, ranks.world_ranks, world.options.virtual_world->device_offloads),
                    std::back_inserter(to));
}

OffloadContext context_of(WorldState& world, const Group& group, const Exchange& exchange,
                          const std::string& transport) {
  return {group, exchange, world.facts.offload_facts[transport], world.parts_of(group.world_ranks),
          world.facts.devices_of(group.world_ranks)};
}

}  // namespace

std::vector<NamedOffload> make_offloads(WorldState& world, const Group& group, const Exchange& all,
                                        std::span<const std::string> transports) {
  const auto held = world.hold();
  const Exchange rounds = world.with_lock_free(all);
  std::vector<NamedOffload> made;
  for (const std::string& t : transports) {
    auto offload = in_rounds(rounds, kOffloadRounds, [&](const Exchange& counted) {
      if (group.size() == 1) return std::unique_ptr<CollectiveOffload>();
      return world.fabric(t).make_offload(context_of(world, group, counted, t));
    });
    if (offload) made.push_back({t, std::move(offload)});
  }
  add_virtual_offloads(world, group, made);
  return made;
}

std::vector<NamedOffload> make_offloads(WorldState& world, const Group& group, const Exchange& all) {
  return make_offloads(world, group, all, world.facts.with_offload());
}

std::vector<NamedOffload> split_offloads(CommunicatorState& whole, const Group& part, int color,
                                         const std::vector<int>& places, const CallOptions& options) {
  WorldState& world = *whole.world;
  const Exchange own = whole.exchange(options);
  const auto held = world.hold();
  const Exchange family = world.with_lock_free(own);
  const std::function<void(const std::function<void(Completion&)>&)> as_call = [&](const auto& start) {
    const SharedProgress::Release free(world.calls->shared());
    static_cast<void>(
        whole.start_on_offload(0, start, options));  // it ends in its time, as the offload that comes of it
  };
  std::vector<NamedOffload> made;
  for (const std::string& t : world.facts.with_offload()) {
    const auto mine = std::ranges::find_if(whole.offloads, [&](const NamedOffload& o) {
      return o.transport == t && o.offload->name() != kDeviceHierarchy;  // that one is no module's
    });
    CollectiveOffload* parent = mine == whole.offloads.end() ? nullptr : mine->offload.get();
    auto offload = in_rounds(family, kSplitRounds, [&](const Exchange& counted) {
      const Exchange among = exchange_among(counted, places);
      const OffloadContext context = context_of(world, part, among, t);
      return world.fabric(t).split_offload({context, color, parent, counted, as_call});
    });
    if (offload) made.push_back({t, std::move(offload)});
  }
  add_virtual_offloads(world, part, made);
  return made;
}

std::vector<NamedOffload> planned_offloads(const WorldState& world, std::span<const int> world_ranks,
                                           std::span<const std::string> transports) {
  std::vector<NamedOffload> planned;
  const std::vector<DeviceLinks> devices = world.facts.devices_of(world_ranks);
  if (world_ranks.size() < 2 || devices.empty()) return planned;
  for (const std::string& t : transports) {
    Module* module = find_module(t, world.options.config);
    auto prospects = module == nullptr ? nullptr : module->prospects(devices);
    if (prospects) planned.push_back({t, std::make_unique<PlannedOffload>(std::move(prospects))});
  }
  return planned;
}

}  // namespace sinew
