#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <sinew/parallel/step_graph/passes/strategies.hpp>
#include <sinew/parallel/step_graph/passes/supply.hpp>

namespace sinew::parallel {

/// A tensor of a compute: the compute, and the place of the tensor among its operands and results, in that order.
struct PlacedSlot {
  std::size_t compute = 0, place = 0;
};

/// A tensor as a whole, in all placements that exchanges along one axis give to it.
struct PlacedValue {
  TensorId root = -1;               ///< the tensor as it is made
  std::optional<PlacedSlot> maker;  ///< nullopt: no compute makes it; its placement is `made`
  Placement made;
  /// false: the engine gives the tensor, and no exchange sends it. Such parameters stay where they are.
  bool travels = true;
  std::vector<PlacedSlot> readers;
  std::vector<Placement> needed;  ///< the placements that gates, and exchanges along other axes, need
};

/// The values of a graph along an axis, in the order in which they are made.
/// Shape: a graph that check_placements() passes.
std::vector<PlacedValue> values_along(const StepGraph& graph, const Axis& axis);

/// The graph with other computes, exchanges and splits along the axis. `strategies` has one entry for each compute, and
/// `supplies` has one for each value. Each exchange is placed before the first node that needs it.
StepGraph rewired(const StepGraph& graph, const Axis& axis, const std::vector<PlacedValue>& values,
                  const std::vector<Strategy>& strategies, const std::vector<Supply>& supplies);

}  // namespace sinew::parallel
