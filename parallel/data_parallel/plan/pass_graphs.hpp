#pragma once

#include <cstddef>

#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

// Parts of the graph of a whole step that plan_step made.

/// The graph without the sums of gradients, and without everything that depends on these sums. `parameters`: how many
/// parameters there are. `gathers`: whether the graph gathers parameters.
StepGraph without_sync(const StepGraph& graph, std::size_t parameters, bool gathers);

/// The forward half of the graph: the gathers that it needs. Gathered parameters are freed after each unit.
StepGraph forward_half(StepGraph graph);

}  // namespace sinew::parallel
