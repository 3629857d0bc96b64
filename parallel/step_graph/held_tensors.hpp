#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// Visits the nodes of a graph in order. Counts the bytes of tensors that are in flight, or whole until a Free.
class SINEW_API HeldTensors {
 public:
  /// Lifetime: `graph` outlives it.
  explicit HeldTensors(const StepGraph& graph);

  /// An exchange starts.
  void start(const Node& exchange) {
    for (const TensorId t : exchange.tensors) hold(t, true);
  }
  /// The node of that index has ended. Only waits and frees have an effect.
  void end(std::size_t node);
  std::int64_t bytes() const noexcept { return bytes_; }

 private:
  void hold(TensorId tensor, bool yes);

  const StepGraph& graph_;
  std::vector<bool> held_;   // by tensor
  std::vector<bool> stays_;  // by node: a wait whose tensors stay until something frees them
  std::int64_t bytes_ = 0;
};

}  // namespace sinew::parallel
