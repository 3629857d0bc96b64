#pragma once

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// Appends the backward pass to a forward graph. For each gate, a signal "gradient of NAME" gives the gradient of what
/// the gate reads. For each signal, a gate "gradient of NAME" reads the gradient of what the engine gave.
///   Computes    The gradient of a product follows from its labels: result and operand exchange their places. The
///               gradient of a sum is passed on. For any other function f, operand I gets "f backward I" of the
///               result's gradient and the operands; the operand itself is left out if f is linear in it. This
///               compute may be cut where f may be cut. It is linear in the gradient, and in what f is linear in.
///   Placements  The gradient of a Shard is a Shard. The gradient of a Replicate or Partial is a Replicate. The
///               share of each compute is brought to that placement at once, as in layers that stand alone.
///   Exchanges   Each exchange becomes its transpose, as in tensor/pairs.hpp. If a gathered tensor has one reader, and
///               its gradient there is Partial, it stays Partial until it is reduce-scattered.
/// Errors: InvalidArgument naming a compute with more than one result, or an exchange that makes anything but sums.
SINEW_API StepGraph with_backward(StepGraph forward, const Factorisation& mesh);

}  // namespace sinew::parallel
