#pragma once

#include <string>

#include <sinew/collectives/world/world_state.hpp>
#include <sinew/core/base/exchange.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/core/deadline.hpp>

namespace sinew {

struct MeasuredCurve {
  CostCurve curve;
  bool is_first_only = false;  ///< of the first messages, that had to wait for connections and pages
  bool in_time = true;         ///< else not each size was measured, or not as often as it should be
};

/// Messages of several sizes between this rank and `peer`, which calls it at the same time. All sizes in turns, so that
/// a busy machine has measured each of them when the time is up; those that a slow link does not move in this time are
/// left out. `budget` counts from the first answer on.
/// Errors: Error{Timeout} naming the peer where it does not answer.
MeasuredCurve measured_curve(WorldState& world, int peer, const std::string& transport, Duration budget);

/// The exchange of two ranks, made of messages.
Exchange exchange_with(WorldState& world, int peer, const std::string& transport);

}  // namespace sinew
