#include <sinew/collectives/simulator/schedule_run.hpp>
#include <sinew/collectives/simulator/simulate.hpp>
#include <sinew/core/bus_factor.hpp>

namespace sinew {

Forecast simulate(const Recipe& recipe, const CollectiveDesc& desc, const Network& network,
                  const SimulationOptions& options) {
  const Cast cast = find_cast(recipe, desc, network, options);
  Forecast forecast = ScheduleRun(cast, network, options).run();
  if (forecast.seconds > 0) {
    forecast.algbw_bytes_per_s = static_cast<double>(desc.bytes(network.ranks())) / forecast.seconds;
    forecast.busbw_bytes_per_s = forecast.algbw_bytes_per_s * bus_factor(desc.collective, network.ranks());
  }
  return forecast;
}

Levels levels_of(const Network& network) {
  std::vector<int> hosts;
  for (int r = 0; r < network.ranks(); ++r) hosts.push_back(network.host_of(r));
  return {{std::move(hosts)}};
}

}  // namespace sinew
