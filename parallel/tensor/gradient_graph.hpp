#pragma once

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// Appends the backward pass to a forward graph. For each gate there is a signal "gradient of NAME": by it the engine
/// gives the gradients of the tensors that it has read at the gate. For each signal there is a gate "gradient of NAME":
/// there the engine reads the gradients of the tensors that it has given by the signal.
///   Computes    A product's gradient follows from its labels: the operand and the result exchange their places. A sum
///               passes its gradient on to its operands. For any other function f, the gradient of operand I is the
///               compute "f backward I". Its operands are the gradient of the result and the operands of f, but operand
///               I is left out if f is linear in it. This compute may be cut where f may be cut. It is linear in the
///               gradient, and in the operands in which f is linear.
///   Placements  The gradient of a Shard is a Shard. The gradient of a Replicate or Partial is a Replicate. Each
///               compute's contribution to a gradient is brought to that placement at once, as in layers that stand
///               alone.
///   Exchanges   Each exchange becomes its transpose, as in tensor/pairs.hpp. If a gathered tensor has one reader, and
///               its gradient there is Partial, it stays Partial until it is reduce-scattered.
/// Errors: InvalidArgument naming a compute with more than one result, or an exchange whose reduction is not a sum.
SINEW_API StepGraph with_backward(StepGraph forward, const Factorisation& mesh);

}  // namespace sinew::parallel
