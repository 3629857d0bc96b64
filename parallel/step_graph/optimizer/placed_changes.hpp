#pragma once

#include <vector>

#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>
#include <sinew/parallel/step_graph/optimizer/exchange_report.hpp>

namespace sinew::parallel {

/// The exchanges that one of two graphs of computes has and the other has not, with the reasons. The graphs compute the
/// same (same_values). Tensors are those of `after`, whose numbers include those of `before`.
std::vector<ExchangeEntry> placed_changes(const StepGraph& before, const StepGraph& after, const Factorisation& mesh,
                                          const ExchangePrices& prices);

/// The traffic of a graph of computes, by axes.
TrafficByAxes placed_traffic(const StepGraph& graph, const Factorisation& mesh, const ExchangePrices& prices);

}  // namespace sinew::parallel
