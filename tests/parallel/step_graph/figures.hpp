#pragma once

#include <cstdint>

#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel::test {

/// Figures by which tests judge a graph.
struct StepFigures {
  std::int32_t exchanges = 0;
  /// Moved by all exchanges together, counting whole tensors.
  std::int64_t bytes = 0;
  /// The most bytes between start and Free at a time, or between start and Wait if nothing frees them.
  std::int64_t bytes_in_flight = 0;
  /// Exchanges without a signal of the engine before the next gate that needs them, or before the end.
  std::int32_t exposed = 0;
};
StepFigures figures_of(const StepGraph& graph);

}  // namespace sinew::parallel::test
