#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// What a graph promises: figures that tests and users judge it by.
struct StepFigures {
  std::int32_t exchanges = 0;
  std::int64_t bytes = 0;            ///< moved by all exchanges together, whole tensors
  std::int64_t bytes_in_flight = 0;  ///< the most between start and Free, or Wait where nothing frees them
  std::int32_t exposed =
      0;  ///< exchanges with no signal of the engine before the next gate that needs them, or the end
};
SINEW_API StepFigures figures_of(const StepGraph& graph);

}  // namespace sinew::parallel
