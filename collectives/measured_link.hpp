#pragma once

#include <optional>
#include <string>

#include <sinew/collectives/world_state.hpp>
#include <sinew/core/cost.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/exchange.hpp>

namespace sinew {

struct MeasuredCurve {
  CostCurve curve;
  bool in_time = true;  ///< else each size was measured, but not as often as it should be
};

/// Messages of several sizes between this rank and `peer`, which calls it at the same time. All sizes in turns, so that
/// a busy machine has measured each of them when the time is up. nullopt: not even once.
/// Errors: Error{Timeout} naming the peer where it does not answer.
std::optional<MeasuredCurve> measured_curve(WorldState& world, int peer, const std::string& transport, Deadline stop);

/// The exchange of two ranks, made of messages.
Exchange exchange_with(WorldState& world, int peer, const std::string& transport);

}  // namespace sinew
