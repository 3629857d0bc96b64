#pragma once

#include <sinew/core/call/cost.hpp>
#include <sinew/topology/network.hpp>

namespace sinew {

/// What a message between two ranks would take, by its route.
CostCurve cost_of_route(const Network& network, int from, int to);

}  // namespace sinew
