#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <sinew/parallel/step_graph/passes/strategies.hpp>
#include <sinew/parallel/step_graph/passes/supply.hpp>

namespace sinew::parallel {

/// A tensor of a compute: which compute of the graph, and which of its operands and results, in that order.
struct PlacedSlot {
  std::size_t compute = 0, place = 0;
};

/// A tensor as a whole, in all the placements that exchanges along one axis give it.
struct PlacedValue {
  TensorId root = -1;               ///< as it is made
  std::optional<PlacedSlot> maker;  ///< none: it is made as `made`
  Placement made;
  bool travels = true;  ///< false: what the engine gives and no exchange has sent; parameters stay where they are
  std::vector<PlacedSlot> readers;
  std::vector<Placement> needed;  ///< by gates, and exchanges along other axes
};

/// Shape: a graph that check_placements() passes.
std::vector<PlacedValue> values_along(const StepGraph& graph, const Axis& axis);

/// The graph with computes as `strategies` says, one for each, and with the exchanges and splits along the axis that
/// `supplies` says, one for each value, each in front of the first node that needs it.
StepGraph rewired(const StepGraph& graph, const Axis& axis, const std::vector<PlacedValue>& values,
                  const std::vector<Strategy>& strategies, const std::vector<Supply>& supplies);

}  // namespace sinew::parallel
