#pragma once

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/compute/blas.hpp>
#include <sinew/parallel/distributed_tensor/distributed_tensor.hpp>
#include <sinew/parallel/distributed_tensor/operation.hpp>

namespace sinew::parallel {

/// Says which matrices are stored as their transpose.
struct MatmulOptions {
  bool a_transposed = false, b_transposed = false;
};

/// The matrix products of a and b, along batch dimensions.
/// Shape:  a [.., m, k] or its transpose, b [.., k, n] or its transpose, the result [.., m, n]. Batch dimensions of one
///         place are repeated, and may be missing.
/// Nothing is sent if rows m or columns n are cut in one matrix: the result is cut there. The same holds if the inner
/// dimension k is cut in both: the result is Partial(sum). A batch dimension may be cut in both, and one matrix may be
/// Partial(sum).
/// Units:  f32 or f64 products; bf16 and f16 are multiplied as f32, and the result is rounded once.
/// Errors: InvalidArgument on all ranks alike, if shapes do not fit or if dtypes or meshes differ. It is thrown before
///         anything is sent. Otherwise as the collectives.
SINEW_API DistributedTensor matmul(const DistributedTensor& a, const DistributedTensor& b, Blas& blas,
                                   MatmulOptions transposed = {}, const CallOptions& = {});
/// The operation that matmul() runs, for plan_operation() and explain().
SINEW_API Operation matmul_operation(const TensorSpec& a, const TensorSpec& b, MatmulOptions transposed = {});

/// The gradients of both matrices, of their shapes. Sums over repeated batch dimensions are made. A gradient may be
/// Partial: each rank then has a part of the sum.
struct MatmulGradients {
  DistributedTensor a, b;
};
/// dout: the gradient of the result of matmul(a, b, blas, transposed).
SINEW_API MatmulGradients matmul_backward(const DistributedTensor& dout, const DistributedTensor& a,
                                          const DistributedTensor& b, Blas& blas, MatmulOptions transposed = {},
                                          const CallOptions& = {});

}  // namespace sinew::parallel
