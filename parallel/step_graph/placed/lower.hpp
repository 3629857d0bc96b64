#pragma once

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// A graph that can run (check(), StepRunner): every compute and split is a gate of its name, at which its operands are
/// there, and a signal of its name, which says that the engine has made its tensors. Exchanges are waited for at once;
/// issue_early and wait_late of step_graph/passes/passes.hpp move them apart.
SINEW_API StepGraph lower(const StepGraph& graph);

}  // namespace sinew::parallel
