#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sinew/parallel/parameter/parameter.hpp>
#include <sinew/parallel/step_graph/protocol.hpp>
#include <sinew/parallel/step_graph/runner.hpp>

namespace sinew::parallel {

/// Runs one graph of data parallelism. Knows the graph's gates and signals by unit and parameter; -1 stands for those
/// that the graph does not have.
struct PassRunner {
  struct UnitNodes {
    std::int32_t before_forward = -1, after_forward = -1, before_backward = -1, after_backward = -1;
    /// For a step whose order a schedule decides, in the order of the schedule.
    std::vector<std::int32_t> unshards{}, uses{}, reshards{}, gradients{}, reduces{};
  };

  PassRunner(StepGraph graph, StepActions& actions, const std::vector<DataParameter>& parameters,
             const std::vector<std::string>& units);

  void gate(std::int32_t node) {
    if (node >= 0) runner.gate(node);
  }
  void signal(std::int32_t node) {
    if (node >= 0) runner.signal(node);
  }

  /// The number of these signals of a unit that were reported in this step. They are reported in their order.
  std::size_t reported(const std::vector<std::int32_t>& signals) const {
    const auto is_reported = [this](std::int32_t node) { return runner.is_complete(node); };
    return static_cast<std::size_t>(std::ranges::partition_point(signals, is_reported) - signals.begin());
  }
  /// Signals the next of a unit's nodes for this call, if there is one.
  void signal_next(StepProtocol::UnitCallKind kind, std::int32_t unit);
  /// The parameters in the order in which their gradients were reported.
  std::vector<std::int32_t> order_of_gradients() const;
  /// Waits for the gather of the unit that has begun last.
  void begin_use(std::int32_t unit);
  /// If gradients are added up from here on, waits as begin_use(), and for earlier sums of the unit. The planned memory
  /// assumes both, even of an engine that computes gradients without their parameters. false: the unit was reduced for
  /// the last time in this step.
  bool begin_gradients(std::int32_t unit);

  StepRunner runner;
  std::vector<UnitNodes> by_unit;
  std::vector<std::int32_t> gradients;  // by parameter
  std::int32_t optimizer = -1, updated = -1;

 private:
  void find_scheduled_nodes(const std::vector<std::string>& units);
  /// Passes a gate if this step has not passed it yet.
  void gate_once(std::int32_t node) {
    if (node >= 0 && !runner.is_complete(node)) runner.gate(node);
  }
};

}  // namespace sinew::parallel
