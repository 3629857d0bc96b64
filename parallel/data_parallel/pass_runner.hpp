#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/parallel/parameter/parameter.hpp>
#include <sinew/parallel/step_graph/runner.hpp>

namespace sinew::parallel {

/// Runs one graph of data parallelism. Knows the graph's gates and signals by unit and parameter; -1 stands for those
/// that the graph does not have.
struct PassRunner {
  struct UnitNodes {
    std::int32_t before_forward = -1, after_forward = -1, before_backward = -1, after_backward = -1;
  };

  PassRunner(StepGraph graph, StepActions& actions, const std::vector<DataParameter>& parameters,
             const std::vector<std::string>& units);

  void gate(std::int32_t node) {
    if (node >= 0) runner.gate(node);
  }
  void signal(std::int32_t node) {
    if (node >= 0) runner.signal(node);
  }

  StepRunner runner;
  std::vector<UnitNodes> by_unit;
  std::vector<std::int32_t> gradients;  // by parameter
  std::int32_t optimizer = -1, updated = -1;
};

}  // namespace sinew::parallel
