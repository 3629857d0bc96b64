#pragma once

#include <optional>
#include <vector>

#include <sinew/parallel/step_graph/graph.hpp>
#include <sinew/parallel/step_graph/optimizer/exchange_report.hpp>

namespace sinew::parallel {

/// Removes exchanges in place that change nothing, as the order of the nodes shows:
///   - A gather of what is whole already. A sum of what is summed already.
///   - An exchange whose result no node reads. A gather whose result is freed before a gate reads it.
///   - A free and the gather that follows it, if the engine does nothing between them.
///   - One of the two exchanges of a tensor that is summed and then cut into parts, or summed into parts and then
///     gathered.
/// An exchange in place says in which state its tensors are to be. So a second sum over the same axes counts as no sum.
/// A signal may have written its tensors, unless it says that they are `unchanged`. Messages, and exchanges that make
/// tensors from others, stay.
/// read_later: as same_reads().
/// Shape:  a graph that check() passes. Appends an entry for each removed exchange to `entries`.
/// Cost:   grows as the nodes and their tensors do, for each time that a removal allows another one.
StepGraph without_repeated_exchanges(StepGraph graph, const std::optional<std::vector<TensorId>>& read_later,
                                     const ExchangePrices& prices, std::vector<ExchangeEntry>& entries);

}  // namespace sinew::parallel
