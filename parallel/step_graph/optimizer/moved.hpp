#pragma once

#include <cstdint>
#include <vector>

#include <sinew/parallel/step_graph/graph.hpp>
#include <sinew/parallel/step_graph/optimizer/exchange_report.hpp>

namespace sinew::parallel {

/// Starts exchanges early and waits for them late, within `most_in_flight` bytes. 0: there is no limit. Appends an
/// entry for each exchange that is at another place than in the graph `given`, which has the same gates and signals.
StepGraph moved_ahead(const StepGraph& given, StepGraph graph, std::int64_t most_in_flight,
                      const ExchangePrices& prices, std::vector<ExchangeEntry>& entries);

/// Adds an entry for each exchange of `after` that joins several of `before`. Exchanges are known by their tensors.
void report_merged(const StepGraph& before, const StepGraph& after, const ExchangePrices& prices,
                   std::vector<ExchangeEntry>& entries);

}  // namespace sinew::parallel
