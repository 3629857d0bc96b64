#pragma once

#include <functional>
#include <string>
#include <utility>

#include <sinew/collectives/world.hpp>

#include "fakes/fake_device.hpp"
#include "support/collective_case.hpp"
#include "support/ranks.hpp"
#include "support/worlds.hpp"

namespace sinew::test {

/// A world whose ranks have a fake accelerator each. `change` may change the options of each rank.
inline void on_devices(
    int ranks, const std::string& transports, const std::function<void(World&, const OnDevice&)>& body,
    const std::function<void(int rank, WorldOptions& options)>& change = [](int, WorldOptions&) {}) {
  const auto body_on = [&](const Exchange& exchange) {
    fake::Device device(ranks);
    WorldOptions options = only(transports);
    options.device_runtime = &device;
    change(exchange.rank, options);
    World world = World::create(exchange, std::move(options));
    const OnDevice where{device, device.make_stream(world.rank())};
    body(world, where);
    device.release(where.stream);
  };
  run_as_threads(ranks, body_on);
}

}  // namespace sinew::test
