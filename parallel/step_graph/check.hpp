#pragma once

#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// Proves that a graph can run: every exchange is waited for once, after it; no gate reads a tensor that is under way
/// or freed, and no exchange starts one; numbers of tensors and exchanges exist.
/// Returns what is wrong with the first bad node, naming it; empty: nothing.
SINEW_API std::string check(const StepGraph& graph);

}  // namespace sinew::parallel
