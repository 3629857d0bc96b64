#pragma once

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/distributed_tensor/distributed_tensor.hpp>
#include <sinew/parallel/distributed_tensor/operation.hpp>

namespace sinew::parallel {

/// The result of a layer norm, and what its backward function needs of each row: the mean, and 1 / the deviation. These
/// are f64 for f64 and f32 otherwise.
struct LayerNormResult {
  DistributedTensor out, mean, factor;
};

/// Moves and scales each row to mean 0 and variance 1, and multiplies by a weight and adds a bias. Rows are along the
/// last dimension. If the last dimension is cut, there are two ways. Either its ranks exchange the sums of each row and
/// then the sums of squares around the mean, and the result keeps the cut. Or the tensor moves to other placements. The
/// way that sends fewer bytes is taken, and explain() says which.
/// Shape:  x [.., n], n >= 1, weight and bias [n], mean and factor [..].
/// Errors: InvalidArgument on all ranks alike, if shapes do not fit or if dtypes or meshes differ. It is thrown before
///         anything is sent. Otherwise as the collectives.
/// Cost:   with the exchange two all_reduces of a number for each row.
/// Source: Ba et al., arXiv 1607.06450.
SINEW_API LayerNormResult layer_norm(const DistributedTensor& x, const DistributedTensor& weight,
                                     const DistributedTensor& bias, double epsilon = 1e-5, const CallOptions& = {});
/// The operation that layer_norm() runs, for plan_operation() and explain().
SINEW_API Operation layer_norm_operation(const TensorSpec& x, const TensorSpec& weight, const TensorSpec& bias);

/// The gradients of x, weight and bias. Those of weight and bias are Partial(sum) if rows are cut.
struct LayerNormGradients {
  DistributedTensor x, weight, bias;
};
/// result: of layer_norm(x, weight, bias). dout: the gradient of its `out`.
/// Cost: if the last dimension is cut, one all_reduce of two numbers for each row, or a move to other placements.
SINEW_API LayerNormGradients layer_norm_backward(const DistributedTensor& dout, const DistributedTensor& x,
                                                 const DistributedTensor& weight, const LayerNormResult& result,
                                                 const CallOptions& = {});

}  // namespace sinew::parallel
