#include <algorithm>
#include <limits>

#include <sinew/collectives/simulator/route_cost.hpp>

namespace sinew {

CostCurve cost_of_route(const Network& network, int from, int to) {
  constexpr double kAnyBytes = 1 << 20;  // one rate for all of them
  CostCurve cost;
  double slowest = std::numeric_limits<double>::infinity();
  for (const NetworkLink& link : network.route(from, to)) {
    const LinkRate& rate = network.rate(link.tier);
    cost.latency_s += rate.latency_s;
    if (rate.bytes_per_s > 0) slowest = std::min(slowest, rate.bytes_per_s);
  }
  if (slowest < std::numeric_limits<double>::infinity()) cost.knots.push_back({kAnyBytes, slowest});
  return cost;
}

}  // namespace sinew
