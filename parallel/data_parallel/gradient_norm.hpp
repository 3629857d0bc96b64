#pragma once

#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/mesh/mesh.hpp>

namespace sinew::parallel {

/// Euclidean norm of all gradients of the whole model, each element once.
/// spread: by parameter, the axes along which ranks hold different elements of it, "tp" or "pp-tp"; "" where each holds
///         all. What data parallelism shards is known from `data`.
/// Shape:  parts as finish_backward gave them. The mesh has a group for each set of axes in `spread`.
/// Errors: InvalidArgument where `spread` has not one entry for each parameter; as Mesh::along and all_reduce; of a
///         call that is not due, as StepProtocol, which ends other groups of the mesh, too: ranks may wait in them.
/// Cost:   a pass over the parts; an all_reduce of 8 bytes along the sharded axis and along each group of the mesh, as
///         ranks of another stage may have other sets of axes. The sum is made shard by shard: its last bits depend on
///         the row. With Determinism::LayoutInvariant squares are added exactly (invariant/exact_sum.hpp), in some ten
///         times the time, and bits depend on nothing but the gradients; the all_reduces are of 1 KiB for each group.
SINEW_API double gradient_norm(DataParallel& data, Mesh& mesh, std::span<const OwnedPart> parts,
                               const std::vector<std::string>& spread, const CallOptions& = {});

/// What gradients are multiplied by so that their norm is at most `largest`. 1 where it is below, NaN where
/// it is NaN.
/// Source: torch.nn.utils.clip_grad_norm_, with its 1e-6.
SINEW_API double clip_scale(double norm, double largest);

}  // namespace sinew::parallel
