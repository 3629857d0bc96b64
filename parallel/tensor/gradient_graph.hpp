#pragma once

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// A forward graph with its backward pass behind it. For each gate a signal "gradient of NAME" gives the gradient of
/// what the gate reads; for each signal a gate "gradient of NAME" reads the gradient of what the engine gave.
///   Products: by the labels of the rule, those of the result and of the operand in each other's place. Sums: the
///   gradient itself. Any other function f: for operand I "f backward I" of the result's gradient and the operands,
///   without that one where f is linear in it; it may be cut where f may, and is linear in the gradient and where f is.
///   Placements: the gradient of what is Shard is Shard, of what is Replicate or Partial it is Replicate. What a
///   compute contributes is brought there at once, as layers do that stand alone.
///   Exchanges: their transposes, as of tensor/pairs.hpp. Where a gathered tensor has one reader, whose contribution is
///   Partial, that goes on as it is, to be reduce-scattered.
/// Errors: InvalidArgument naming a compute of more than one result, or an exchange that makes anything but sums.
SINEW_API StepGraph with_backward(StepGraph forward, const Factorisation& mesh);

}  // namespace sinew::parallel
