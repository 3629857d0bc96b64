#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

// Functions that build a graph of computes. Each returns the tensor that it makes.

TensorId add_tensor(StepGraph& graph, StepTensor tensor);

/// The placement of the result follows from the rule. Dimensions whose label no operand has are whole.
/// Errors: InvalidArgument naming compute, tensor, axis, and the placements found and expected.
TensorId add_compute(StepGraph& graph, const Factorisation& mesh, Node compute, StepTensor result);

/// Adds an exchange or a split along one axis. Adds nothing if the tensor has the placement already.
/// Errors: InvalidArgument naming the tensor if there is no such exchange.
TensorId add_move(StepGraph& graph, const Factorisation& mesh, TensorId tensor, const std::string& axis,
                  const Placement& to);

}  // namespace sinew::parallel
