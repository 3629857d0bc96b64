#pragma once

#include <string_view>
#include <vector>

#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>
#include <sinew/parallel/step_graph/passes/least_cost.hpp>

namespace sinew::parallel {

/// A change of a tensor's placement along an axis.
struct SupplyStep {
  Placement from, to;
};

/// The moves that bring a tensor from the placement in which it is made into others. Each move starts at the placement
/// in which the tensor is made, or at one to which an earlier move has led.
struct Supply {
  std::vector<SupplyStep> moves;
  Cost cost;
};

/// The cheapest moves. A whole tensor is split at no cost. A tensor that is needed whole and in parts is made whole
/// first.
/// Shape: placements are plain().
Supply supply(const StepTensor& tensor, const Axis& axis, const Factorisation& mesh, const Placement& made,
              const std::vector<Placement>& needed);

}  // namespace sinew::parallel
