#pragma once

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/core/dtype.hpp>

namespace sinew {

/// The norm at the end of a layer. A row has as many elements as the weight.
struct RmsNorm {
  ConstBuffer weight;  ///< equal on all ranks
  double epsilon = 1e-6;
};

/// Ends a layer of a transformer under tensor parallelism, in inference. It sums `partial` over the ranks, adds the sum
/// to the residual, and normalizes each row of the new residual by its root mean square:
///   residual = residual + sum of `partial` over the ranks
///   normed   = residual / sqrt(mean of the row's squares + epsilon) * weight
/// It returns when both results are complete.
/// Shape:  partial, residual and normed have the same number of bytes, which is a multiple of the weight's. All are
///         host memory. `normed` may be `partial`. Otherwise no two buffers share a byte.
/// Errors: InvalidArgument if the dtype is not f16, bf16, f32 or f64, or for other bad arguments. Errors of
///         Communicator::all_reduce(). The residual and `normed` are undefined after those.
/// Exact:  as all_reduce() and add_rms_norm(). The sum is rounded to the dtype before it is added.
/// Cost:   one all_reduce, or several of up to 256 KiB, whose rows are normalized while they are in the cache.
SINEW_API void all_reduce_add_rms_norm(Communicator& ranks, ConstBuffer partial, Buffer residual, const RmsNorm& norm,
                                       Buffer normed, DType dtype, const CallOptions& options = {});

}  // namespace sinew
