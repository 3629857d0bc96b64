#pragma once

#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/distributed_tensor/distributed_tensor.hpp>
#include <sinew/parallel/distributed_tensor/operation.hpp>

namespace sinew::parallel {

enum class Reduction : std::uint8_t { Sum, Mean, Max };

/// Reduces dimensions of a tensor. Over a dimension that is cut, each rank reduces its part, and the result is pending:
/// Partial(sum) for Sum, Partial(max) for Max. For Mean each rank divides its sum by the extent of the whole dimension,
/// so that the result is Partial(sum) and right for parts of any lengths. A Partial of the same operator is kept.
struct ReductionOptions {
  std::vector<int> dims{};  ///< negative numbers count from the last one; empty: all dimensions
  bool keep_dims = false;   ///< reduced dimensions stay, with one place
};
/// Errors: InvalidArgument on all ranks alike, for a dimension that the tensor lacks or that is named twice, and for a
///         Mean or Max over no elements. It is thrown before anything is sent. Otherwise as the collectives.
SINEW_API DistributedTensor reduce(Reduction reduction, const DistributedTensor& x, const ReductionOptions& = {},
                                   const CallOptions& = {});
/// The operation that reduce() runs, for plan_operation() and explain().
SINEW_API Operation reduce_operation(Reduction reduction, const TensorSpec& x, const ReductionOptions& = {});

/// The gradient of x. That of a Max goes in equal parts to all elements that are the maximum.
/// dout, out: the gradient of reduce(reduction, x, options), and its result.
/// Errors: as above, and if shapes do not fit.
SINEW_API DistributedTensor reduce_backward(Reduction reduction, const DistributedTensor& dout,
                                            const DistributedTensor& x, const DistributedTensor& out,
                                            const ReductionOptions& = {}, const CallOptions& = {});

}  // namespace sinew::parallel
