#include <fmt/format.h>

#include <sinew/collectives/simulator/schedule_run.hpp>
#include <sinew/collectives/simulator/simulate.hpp>
#include <sinew/core/call/bus_factor.hpp>
#include <sinew/core/error.hpp>

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

namespace {

const Recipe& recipe_of(const Plan& plan) {
  const Recipe* recipe = plan.recipe();
  if (recipe != nullptr) return *recipe;
  const Candidate& chosen = plan.chosen();
  throw Error(Code::InvalidArgument,
              fmt::format("{} on {} ranks: the plan takes '{}' over {}, whose steps nobody knows: expected a plan by "
                          "an algorithm or a composition",
                          plan.call().to_string(), plan.ranks(), chosen.algorithm, chosen.transport));
}

}  // namespace

Forecast simulate(const Plan& plan, const Network& network, const SimulationOptions& options) {
  const CollectiveDesc& desc = plan.call();
  const Recipe& recipe = recipe_of(plan);
  if (network.ranks() != plan.ranks()) {
    throw Error(Code::InvalidArgument, fmt::format("{}: the plan is for {} ranks, and {} has {}: expected as many",
                                                   desc.to_string(), plan.ranks(), network.name, network.ranks()));
  }
  SimulationOptions as_planned = options;
  as_planned.segmentation = plan.segmentation();
  return simulate(recipe, desc, network, as_planned);
}

Levels levels_of(const Network& network) {
  std::vector<int> hosts;
  for (int r = 0; r < network.ranks(); ++r) hosts.push_back(network.host_of(r));
  return {{std::move(hosts)}};
}

}  // namespace sinew
