#pragma once

#include <cstddef>

#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

// Of the graph of a whole step that plan_step made.

/// Without sums of gradients, and without what follows from them. `gathers`: its parameters, so many, are gathered.
StepGraph without_sync(const StepGraph& graph, std::size_t parameters, bool gathers);

/// Its forward half: what is gathered for that, and freed behind each unit.
StepGraph forward_half(StepGraph graph);

}  // namespace sinew::parallel
