#pragma once

#include <string_view>
#include <vector>

#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>
#include <sinew/parallel/step_graph/passes/least_cost.hpp>

namespace sinew::parallel {

/// From one placement of a tensor along an axis to another.
struct SupplyStep {
  Placement from, to;
};

/// How a tensor that is made in one placement gets into others; each move starts where the tensor is made or one before
/// it has led.
struct Supply {
  std::vector<SupplyStep> moves;
  Cost cost;
};

/// The cheapest: what is whole is split for nothing, and one that is needed whole and in parts is made whole first.
/// Shape: placements are plain().
Supply supply(const StepTensor& tensor, const Axis& axis, const Factorisation& mesh, const Placement& made,
              const std::vector<Placement>& needed);

}  // namespace sinew::parallel
