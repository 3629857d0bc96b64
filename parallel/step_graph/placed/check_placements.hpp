#pragma once

#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// Proves that a graph of computes says what it does: every tensor is made once, before it is read, in a placement that
/// it can have; an exchange or split changes the placement along its one axis and nothing else; every compute accepts
/// its operands along every axis and leaves results as its rule says (ComputeRule, step_graph/placed/bound_rule.hpp).
/// Returns what is wrong with the first bad node, naming tensor, axis, found and expected placement; empty: nothing.
SINEW_API std::string check_placements(const StepGraph& graph, const Factorisation& mesh);

}  // namespace sinew::parallel
