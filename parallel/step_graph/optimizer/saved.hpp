#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>
#include <sinew/parallel/step_graph/optimizer/exchange_report.hpp>

namespace sinew::parallel {

/// Gathers tensors again before the first node of the backward pass that reads them, if they were gathered in the
/// forward pass and have no room in `saved_bytes` until then. The tensors that were gathered last are kept first,
/// because the backward pass reads them first.
/// backward: the signal with which the backward pass begins.
/// Shape:  a graph of computes. Appends an entry for each added gather.
/// Errors: InvalidArgument if there is no such signal.
/// Source: sequence parallelism (Korthikanti et al., arXiv 2205.05198, section 4.2.2): each rank saves its own rows of
///         a layer's input, and gathers them again for the gradient of the weight.
StepGraph gathered_again(StepGraph graph, const Factorisation& mesh, const std::string& backward,
                         std::int64_t saved_bytes, const ExchangePrices& prices, std::vector<ExchangeEntry>& entries);

/// Adds to a lowered graph a Free of each tensor that an exchange makes of another one, after the last compute that
/// reads it. Tensors that the engine reads last at another gate stay, and so do operands of exchanges.
StepGraph with_frees(StepGraph graph);

}  // namespace sinew::parallel
