#pragma once

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/checkpoint/index/item.hpp>
#include <sinew/parallel/placement/tensor.hpp>

namespace sinew::parallel {

/// The part of a tensor that `rank` of `mesh` has: one to hold or to want in reshard(). Where the placements replicate
/// the tensor, each rank has a copy. All of these copies may be sources.
/// Errors: as require_valid(). InvalidArgument for a Partial, because no rank has the tensor's values then, and for a
///         buffer of another length.
SINEW_API CheckpointPart placed_part(const Tensor& tensor, const Factorisation& mesh, int rank);

}  // namespace sinew::parallel
