#pragma once

// Graphs of computes, whose tensors have placements. The room holds the rules of computes, proves graphs, builds them,
// counts what they send, and lowers them to graphs that can run. It may include the room `step_graph`, the mesh and
// placements.

#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// Proves that a graph of computes is right. Every tensor is made once, before it is read, in a placement that it can
/// have. An exchange or split changes the placement along its one axis and nothing else. Every compute accepts its
/// operands along every axis, and leaves its results as its rule says (ComputeRule, BoundRule).
/// Returns what is wrong with the first bad node, naming tensor, axis, found and expected placement. Empty: nothing.
SINEW_API std::string check_placements(const StepGraph& graph, const Factorisation& mesh);

}  // namespace sinew::parallel
