#pragma once

#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/core/work.hpp>
#include <sinew/parallel/mesh/mesh.hpp>
#include <sinew/parallel/placement/tensor.hpp>

namespace sinew::parallel {

// Collectives that know what they are given. Each sets the placements of its result when it is posted: those before,
// but along `axis`.
// Errors: InvalidArgument, on the spot and before anything is sent, naming call, tensor, axis, the placement found, the
//         one expected and the step that would lead there: "all_gather of 'w1' (f32 [8, 8]) along dp: expected
//         Shard(0), found Partial(sum): all_reduce it instead, or reduce_scatter it first". So, too, an axis that is
//         not the innermost of those that cut dimension 0 (or combine, where the order of operators matters), tensors
//         of another dtype or shape, a buffer that has not the bytes of its box. As the communicator's calls otherwise.

/// Partial to Replicate, in place.
SINEW_API Work all_reduce(Mesh& mesh, Tensor& tensor, std::string_view axis, const CallOptions& = {});
/// Shard of dimension 0 to Replicate.
SINEW_API Work all_gather(Mesh& mesh, const Tensor& from, Tensor& to, std::string_view axis, const CallOptions& = {});
/// Partial to Shard of dimension 0: with the offsets that `to` has along the axis if it is such a shard, else even.
SINEW_API Work reduce_scatter(Mesh& mesh, const Tensor& from, Tensor& to, std::string_view axis,
                              const CallOptions& = {});

/// Throws unless the tensor's placement along `axis` is what a layer needs; `what` is the layer's or call's name.
SINEW_API void require(const TensorSpec& tensor, std::string_view axis, const Placement& needed, std::string_view what);

}  // namespace sinew::parallel
