#pragma once

#include <cstddef>

#include <sinew/parallel/data_parallel/plan/step_plan.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

// Parts of the graph of a whole step that plan_step made.

/// The graph without the sums of gradients, and without everything that depends on these sums. `parameters`: how many
/// parameters there are. `gathers`: whether the graph gathers parameters.
StepGraph without_sync(const StepGraph& graph, std::size_t parameters, bool gathers);

/// The graph of a pass within forward_only(): that of the plan if a schedule decides the order. Otherwise the forward
/// half of the step's graph: the gathers that it needs. Gathered parameters are freed after each unit.
StepGraph forward_graph(const StepPlan& plan);

}  // namespace sinew::parallel
