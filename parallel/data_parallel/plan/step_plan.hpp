#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/data_parallel/plan/options.hpp>
#include <sinew/parallel/data_parallel/plan/row.hpp>
#include <sinew/parallel/parameter/parameter.hpp>
#include <sinew/parallel/step_graph/graph.hpp>
#include <sinew/parallel/step_graph/optimizer/exchange_report.hpp>

namespace sinew::parallel {

/// The graph of a step, and which tensors lie side by side in memory.
/// With n parameters, tensor i of the graph is the whole of parameter i, and tensor n + i is its gradient.
/// The engine's gates are "forward UNIT" and "backward UNIT" before each pass of a unit, and "optimizer" before the
/// update. Its signals are "forward done UNIT", "backward done UNIT", "gradient PATH" and "updated".
struct StepPlan {
  StepGraph graph{};
  /// Parameters that are sent together, in the order in which they lie in memory. Each parameter is in exactly one
  /// group.
  std::vector<std::vector<std::int32_t>> groups{};
  /// The graph of a pass within forward_only(), if a schedule decides the order (DataOptions::order).
  std::optional<StepGraph> forward{};
  /// The changes that the optimizer of exchanges made.
  ExchangeReport report{};
};

/// Plans a step. Units run forward in the order of their first parameters, and backward in the reverse order. The outer
/// unit surrounds all others in both.
/// `ready`: the parameters in the order in which their gradients come. {}: the last parameter's gradient comes first.
/// If parameters are sharded, each unit is a bucket and the policy is ignored.
/// With DataOptions::order, the graph is that of plan_scheduled_step() instead.
/// `prices`: for the bytes and times of the report.
/// Errors: InvalidArgument that lists everything that is wrong: broken rules of the row; an empty or repeated path; a
///         parameter without elements or without a unit; an unknown outer unit; a gradient of another dtype than its
///         parameter's, unless it is f32 for 16 bits; and a `ready` that is not a permutation of all parameters. Also
///         an order that violations_of() judges wrong, or that comes with another option for units.
SINEW_API StepPlan plan_step(const std::vector<DataParameter>& parameters, const DataRow& row,
                             const DataOptions& options = {}, const std::vector<std::int32_t>& ready = {},
                             const ExchangePrices& prices = {});

}  // namespace sinew::parallel
