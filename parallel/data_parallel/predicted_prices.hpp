#pragma once

#include <sinew/parallel/data_parallel/memory/step_memory.hpp>
#include <sinew/parallel/data_parallel/plan/options.hpp>
#include <sinew/parallel/mesh/mesh.hpp>
#include <sinew/parallel/step_graph/optimizer/exchange_report.hpp>

namespace sinew::parallel {

/// The sizes of a step's groups, and the times that the selector predicts for their exchanges.
/// Lifetime: valid as long as the arguments.
ExchangePrices predicted_prices(Mesh& mesh, StepMemory& memory, const DataParallelOptions& options);

}  // namespace sinew::parallel
