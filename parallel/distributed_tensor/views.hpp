#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/distributed_tensor/distributed_tensor.hpp>
#include <sinew/parallel/distributed_tensor/operation.hpp>

// The same elements under another shape. Cuts and Partials of sums are kept.
// Errors: InvalidArgument on all ranks alike, before anything is sent, if shapes or dimensions do not fit. Otherwise as
//         the collectives.
namespace sinew::parallel {

/// The tensor whose dimension d is dimension order[d] of x. Nothing is sent for Shard, Replicate and Partial(sum).
/// Its gradient is permute() by the inverse order.
SINEW_API DistributedTensor permute(const DistributedTensor& x, std::span<const int> order, const CallOptions& = {});
/// The tensor with two dimensions exchanged. Its gradient is the same function of the gradient.
SINEW_API DistributedTensor transpose(const DistributedTensor& x, int dim0, int dim1, const CallOptions& = {});
SINEW_API Operation permute_operation(const TensorSpec& x, std::span<const int> order);

/// The same elements, row-major, under another shape. A dimension may be split into several, and neighbours may be
/// merged into one. A cut is kept if it falls between places of the outermost dimension: then nothing is sent, and each
/// rank keeps its data. Otherwise x moves to other placements first, with the fewest bytes. One extent may be -1: it
/// follows from the others. Its gradient is reshape() to the shape of x.
SINEW_API DistributedTensor reshape(const DistributedTensor& x, std::vector<std::int64_t> shape,
                                    const CallOptions& = {});
SINEW_API Operation reshape_operation(const TensorSpec& x, std::vector<std::int64_t> shape);

}  // namespace sinew::parallel
