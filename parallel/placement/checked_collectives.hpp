#pragma once

#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/core/work.hpp>
#include <sinew/parallel/mesh/mesh.hpp>
#include <sinew/parallel/placement/tensor.hpp>

namespace sinew::parallel {

// Collectives that check the placements of their tensors. When a call is posted, it sets the placements of its result:
// those of its input, with another one along `axis`.
// Errors: InvalidArgument at once, before anything is sent. The text names the call, the tensor, the axis, the
//         placement found, the one expected, and the step that would lead there: "all_gather of 'w1' (f32 [8, 8]) along
//         dp: expected Shard(0), found Partial(sum): all_reduce it instead, or reduce_scatter it first".
//         InvalidArgument is also thrown if a placement inside this axis must change first: another cut of dimension 0,
//         or a Partial whose order matters. It is also thrown for tensors of different dtype or shape, and for a buffer
//         of another length than its box. Otherwise as the communicator's calls.

/// Partial to Replicate, in place.
SINEW_API Work all_reduce(Mesh& mesh, Tensor& tensor, std::string_view axis, const CallOptions& = {});
/// Shard of dimension 0 to Replicate.
SINEW_API Work all_gather(Mesh& mesh, const Tensor& from, Tensor& to, std::string_view axis, const CallOptions& = {});
/// Partial to Shard of dimension 0. If `to` is already such a shard along the axis, its offsets are used; otherwise the
/// cut is even.
SINEW_API Work reduce_scatter(Mesh& mesh, const Tensor& from, Tensor& to, std::string_view axis,
                              const CallOptions& = {});

/// Throws unless the tensor's placement along `axis` is the one that a layer needs. `what` names the layer or call.
SINEW_API void require(const TensorSpec& tensor, std::string_view axis, const Placement& needed, std::string_view what);

}  // namespace sinew::parallel
