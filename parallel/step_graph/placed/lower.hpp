#pragma once

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// Turns a graph of computes into one that can run (check(), StepRunner). Every compute and split becomes a gate and a
/// signal of its name. At the gate its operands have arrived. By the signal the engine says that it has made the
/// tensors. Exchanges are waited for at once. issue_early and wait_late (step_graph/passes/passes.hpp) move the waits.
SINEW_API StepGraph lower(const StepGraph& graph);

}  // namespace sinew::parallel
