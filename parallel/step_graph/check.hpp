#pragma once

#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// Proves that a graph can run. Every exchange is waited for once, after its start. No gate reads a tensor that is in
/// flight or freed, and no exchange starts with one. Numbers of tensors and exchanges exist.
/// Returns what is wrong with the first bad node, naming it. Empty: nothing.
SINEW_API std::string check(const StepGraph& graph);

}  // namespace sinew::parallel
