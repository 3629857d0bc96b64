#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// Proves that two graphs that can run give the engine the same tensors. At each gate both graphs have a tensor from
/// the same signal or exchange, summed over the same axes. It is whole along all axes along which the first graph has
/// it whole, unless the gate needs parts only. The tensors that are read after the step are compared in the same way at
/// its end.
/// An exchange in place says in which state its tensors are to be: summed, in parts, or whole. So a second sum over the
/// same axes changes nothing.
/// read_later: the tensors that the engine reads after the step without a gate. nullopt: all.
/// Returns the first gate at which the graphs differ. Empty: none.
SINEW_API std::string same_reads(const StepGraph& before, const StepGraph& after,
                                 const std::optional<std::vector<TensorId>>& read_later = std::nullopt);

}  // namespace sinew::parallel
