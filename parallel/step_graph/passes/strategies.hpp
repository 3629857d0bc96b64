#pragma once

#include <map>
#include <set>
#include <vector>

#include <sinew/parallel/step_graph/graph.hpp>
#include <sinew/parallel/step_graph/placed/bound_rule.hpp>

namespace sinew::parallel {

/// The placements along one axis in which a compute takes its operands and leaves its results.
struct Strategy {
  std::vector<Placement> all;  ///< placements of operands, then of results, each as plain() returns it
};

/// By extent of a dimension or label: the offsets of its cuts along an axis.
using KnownCuts = std::map<std::int64_t, std::set<std::vector<std::int64_t>>>;
KnownCuts known_cuts(const StepGraph& graph, const Axis& axis);

/// The strategies that a compute can use along an axis. The first one is its present one. Ranks that share its work
/// keep sharing it, except that a sum of operands may take Partial ones. Dimensions that other axes cut stay as they
/// are.
std::vector<Strategy> strategies_of(const StepGraph& graph, const Node& compute, const Axis& axis,
                                    const KnownCuts& known);

}  // namespace sinew::parallel
