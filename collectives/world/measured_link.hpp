#pragma once

#include <string>

#include <sinew/collectives/world/world_state.hpp>
#include <sinew/core/base/exchange.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/core/deadline.hpp>

namespace sinew {

struct MeasuredCurve {
  CostCurve curve;
  bool is_first_only = false;  ///< true if only first messages were measured, which wait for connections and pages
  bool in_time = true;         ///< false if time was too short to measure each size as often as planned
};

/// Measures messages of several sizes between this rank and `peer`, which calls the function at the same time. The
/// sizes take turns, so that even a busy machine measures each of them within `budget`. Sizes are left out that a slow
/// link cannot move within that time. `budget` counts from the peer's first answer.
/// Errors: Error{Timeout} with the peer if it does not answer.
MeasuredCurve measured_curve(WorldState& world, int peer, const std::string& transport, Duration budget);

/// Returns an exchange between two ranks, made of messages.
Exchange exchange_with(WorldState& world, int peer, const std::string& transport);

}  // namespace sinew
