#pragma once

#include <string_view>

#include <sinew/core/call_options.hpp>
#include <sinew/core/export.hpp>
#include <sinew/core/work.hpp>
#include <sinew/parallel/mesh/mesh.hpp>
#include <sinew/parallel/placement/tensor.hpp>

namespace sinew::parallel {

// Collectives that know what they are given. Each sets the placement of `to` along `axis` when it is posted.
// Errors: InvalidArgument, on the spot, naming call, tensor, axis, the placement found, the one expected and the step
//         that would lead there: "all_gather of 'w1' along dp: expected Shard, found Partial(sum): all_reduce it, or
//         reduce_scatter it first".

/// Partial to Replicate, in place.
SINEW_API Work all_reduce(Mesh& mesh, Tensor& tensor, std::string_view axis, const CallOptions& = {});
/// Shard to Replicate. `from` sharded along dimension 0, cut last by `axis`; `to.buffer` has room for the whole.
SINEW_API Work all_gather(Mesh& mesh, const Tensor& from, Tensor& to, std::string_view axis, const CallOptions& = {});
/// Partial to Shard of dimension 0.
SINEW_API Work reduce_scatter(Mesh& mesh, const Tensor& from, Tensor& to, std::string_view axis,
                              const CallOptions& = {});

/// Throws unless the tensor's placement along `axis` is what a layer needs; `what` is the layer's or call's name.
SINEW_API void require(const TensorSpec& tensor, std::string_view axis, const Placement& needed, std::string_view what);

}  // namespace sinew::parallel
