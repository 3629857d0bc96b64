#pragma once

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/distributed_tensor/distributed_tensor.hpp>
#include <sinew/parallel/distributed_tensor/operation.hpp>

namespace sinew::parallel {

/// The rows of a table that tokens name. If the rows of the table are cut, a token of another rank gives zeros, and the
/// result is Partial(sum). If its columns are cut, so are those of the result.
/// Shape:  tokens [..] of i64, table [vocabulary, width], the result [.., width].
/// Errors: InvalidArgument on all ranks alike, before anything is sent, if shapes do not fit, dtypes are others, or
///         meshes differ. InvalidArgument on all ranks also for a token outside the vocabulary. The rank that has the
///         token names it and its place, and the others name that rank.
/// Cost:   two small all_reduces along each group of the mesh let the error of a token reach all ranks.
SINEW_API DistributedTensor embedding(const DistributedTensor& tokens, const DistributedTensor& table,
                                      const CallOptions& = {});
/// The operation that embedding() runs, for plan_operation() and explain().
SINEW_API Operation embedding_operation(const TensorSpec& tokens, const TensorSpec& table);

/// The gradient of the table. Each rank adds up the rows that it has, at no cost in bytes if tokens and dout lie alike.
/// It is Partial(sum) where tokens are cut.
/// dout: the gradient of embedding(tokens, table). The tokens have been checked there.
SINEW_API DistributedTensor embedding_backward(const DistributedTensor& dout, const DistributedTensor& tokens,
                                               const DistributedTensor& table, const CallOptions& = {});

}  // namespace sinew::parallel
