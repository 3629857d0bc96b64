#pragma once

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/step_graph/optimizer/optimize.hpp>
#include <sinew/parallel/tensor/layer_graph.hpp>

namespace sinew::parallel {

/// A training step of a model: its forward and backward pass (with_backward), with its exchanges optimized.
/// options: `backward` is set here if it is empty, to the first gradient that the engine gives.
/// Errors: InvalidArgument for a model without an output. Also those of with_backward() and optimize_exchanges().
SINEW_API OptimizedComputes layer_step(const LayerGraph& model, ExchangeOptions options = {});

/// The same for the forward pass alone, as for evaluation.
SINEW_API OptimizedComputes layer_evaluation(const LayerGraph& model, const ExchangeOptions& options = {});

}  // namespace sinew::parallel
