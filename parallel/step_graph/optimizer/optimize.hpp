#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>
#include <sinew/parallel/step_graph/optimizer/exchange_report.hpp>
#include <sinew/parallel/step_graph/passes/passes.hpp>

namespace sinew::parallel {

/// The steps that optimize_exchanges() takes, and facts about the engine.
struct ExchangeOptions {
  bool removes = true;  ///< redundant exchanges go
  /// Neighbours of the same kind and axes are joined. NoBuckets: they are not.
  BucketPolicy merge = NoBuckets{};
  bool moves = true;  ///< exchanges start early, and are waited for late
  /// The memory for tensors that are in flight, or gathered and not freed. It limits how early exchanges start. 0:
  /// there is no limit.
  std::int64_t most_in_flight = 0;
  /// For graphs without computes: the tensors that the engine reads after the step without a gate. nullopt: all.
  std::optional<std::vector<TensorId>> read_later{};
  /// For graphs of computes: the signal with which the backward pass begins. Empty: there is none.
  std::string backward{};
  /// For graphs of computes with a backward pass: the memory for tensors that were gathered in the forward pass and are
  /// read again in the backward pass. Tensors that have no room are gathered a second time. The default keeps all.
  std::int64_t saved_bytes = std::numeric_limits<std::int64_t>::max();
  ExchangePrices prices{};
};

/// A graph that can run, and its report.
struct OptimizedGraph {
  StepGraph graph{};
  ExchangeReport report{};
};

/// Optimizes the exchanges of a graph without computes, in this order: removes exchanges that change nothing, joins
/// neighbours, and moves exchanges ahead within the memory budget. All builders of step graphs call it. The result is
/// used only if check() and same_reads() prove it.
/// Errors: InvalidArgument for a graph that check() refuses. Whatever the functions of the prices throw.
/// Cost:   grows as the graph does.
SINEW_API OptimizedGraph optimize_exchanges(StepGraph graph, const ExchangeOptions& options);

/// The same for a graph of computes.
struct OptimizedComputes {
  StepGraph computes{};  ///< with the exchanges that are left, for the engine, which makes its tensors
  StepGraph graph{};     ///< the same lowered, merged and moved, for StepRunner
  ExchangeReport report{};
};

/// Optimizes the exchanges of a graph of computes:
///   1. Removes redundant exchanges (remove_redundant_exchanges).
///   2. Gathers again in the backward pass what saved_bytes has no room for.
///   3. Lowers the graph, and joins neighbours. Then adds a Free of each gathered tensor after its last compute.
///   4. Moves exchanges ahead within the memory budget.
/// An exchange that is joined has one operand for each of its tensors. The result of each step is used only if
/// check_placements(), same_values(), check() and same_reads() prove it.
/// Errors: InvalidArgument for a graph that check_placements() refuses, or without a signal of the name `backward`.
/// Cost:   as remove_redundant_exchanges().
SINEW_API OptimizedComputes optimize_exchanges(StepGraph graph, const Factorisation& mesh,
                                               const ExchangeOptions& options);

}  // namespace sinew::parallel
