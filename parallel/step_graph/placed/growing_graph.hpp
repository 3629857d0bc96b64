#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

// What makers of graphs of computes add to one; each returns the tensor that is made.

TensorId add_tensor(StepGraph& graph, StepTensor tensor);

/// Placements follow from the rule, those of labels that no operand has whole.
/// Errors: InvalidArgument naming compute, tensor, axis, and the placements found and expected.
TensorId add_compute(StepGraph& graph, const Factorisation& mesh, Node compute, StepTensor result);

/// An exchange or a split along one axis; nothing where the tensor is there already.
/// Errors: InvalidArgument naming the tensor where there is no such way.
TensorId add_move(StepGraph& graph, const Factorisation& mesh, TensorId tensor, const std::string& axis,
                  const Placement& to);

}  // namespace sinew::parallel
