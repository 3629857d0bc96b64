#pragma once

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/distributed_tensor/distributed_tensor.hpp>
#include <sinew/parallel/distributed_tensor/operation.hpp>

namespace sinew::parallel {

/// exp(x - m) / s, with the maximum m and the sum s of exp(x - m) along a dimension. If the dimension is cut, there are
/// two ways. Either its ranks exchange the maxima and then the sums, and the result keeps the cut. Or the tensor moves
/// to other placements. The way that sends fewer bytes is taken, and explain() says which.
/// dim: a negative number counts from the last dimension.
/// Errors: InvalidArgument on all ranks alike for a dimension that the tensor lacks. It is thrown before anything is
///         sent. Otherwise as the collectives.
/// Cost:   with the exchange two all_reduces of a number for each row.
SINEW_API DistributedTensor softmax(const DistributedTensor& x, int dim = -1, const CallOptions& = {});
/// The operation that softmax() runs, for plan_operation() and explain().
SINEW_API Operation softmax_operation(const TensorSpec& x, int dim = -1);

/// The gradient of x: out * (dout - the sum of dout * out along the dimension).
/// Cost: if the dimension is cut, one all_reduce of a number for each row, or a move of both tensors.
SINEW_API DistributedTensor softmax_backward(const DistributedTensor& dout, const DistributedTensor& out, int dim = -1,
                                             const CallOptions& = {});

}  // namespace sinew::parallel
