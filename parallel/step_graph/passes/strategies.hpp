#pragma once

#include <map>
#include <set>
#include <vector>

#include <sinew/parallel/step_graph/graph.hpp>
#include <sinew/parallel/step_graph/placed/bound_rule.hpp>

namespace sinew::parallel {

/// Placements along one axis in which a compute takes its operands and leaves its results.
struct Strategy {
  std::vector<Placement> all;  ///< operands, then results; plain()
};

/// Ways in which extents are cut along an axis.
using KnownCuts = std::map<std::int64_t, std::set<std::vector<std::int64_t>>>;
KnownCuts known_cuts(const StepGraph& graph, const Axis& axis);

/// What a compute can do along an axis; first, what it does. Ranks that do a part of the work each go on to do so, but
/// that sums of operands may be made of Partial ones; dimensions that other axes cut stay as they are.
std::vector<Strategy> strategies_of(const StepGraph& graph, const Node& compute, const Axis& axis,
                                    const KnownCuts& known);

}  // namespace sinew::parallel
