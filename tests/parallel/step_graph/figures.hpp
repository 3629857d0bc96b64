#pragma once

#include <cstdint>

#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel::test {

/// Figures by which tests judge a graph.
struct StepFigures {
  std::int32_t exchanges = 0;
  /// The bytes that all exchanges together move, counted as whole tensors.
  std::int64_t bytes = 0;
  /// The most bytes that are held at a time. A tensor is held from the start of its exchange to Free, or to Wait if
  /// nothing frees it.
  std::int64_t bytes_in_flight = 0;
  /// Exchanges without a signal of the engine before the next gate that needs them, or before the end.
  std::int32_t exposed = 0;
};
StepFigures figures_of(const StepGraph& graph);

}  // namespace sinew::parallel::test
