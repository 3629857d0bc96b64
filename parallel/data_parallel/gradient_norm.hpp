#pragma once

#include <span>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>

namespace sinew::parallel {

/// Euclidean norm of all gradients of the whole model. Each element counts once: DataParameter::spread tells what other
/// ranks hold, and `data` what data parallelism shards. If a gradient of any rank is infinite or NaN, the result is
/// infinite or NaN on all ranks along the axes of the mesh's groups. This holds even if it is a copy of a gradient that
/// is finite on other ranks. So all ranks can skip the same steps (optim/loss_scaler.hpp).
/// Squares of f16, bf16 and f32 never overflow, since they are added in f64. The result is also infinite if gradients
/// of f64 are so large that the sum of their squares exceeds the largest double: about 1.3e154 for a single element.
/// Shape:  `parts` as finish_backward returned them.
/// Errors: as all_reduce. If the call is not due, as StepProtocol; other groups of the mesh then end too, because ranks
///         may wait in them. If a device lacks memory for the sums, the World ends on all ranks with the rank's text.
/// Cost:   a pass over the parts. An all_reduce of 8 bytes along the sharded axis and along each group of the mesh,
///         because ranks of another stage may have other sets of axes. The sum is made shard by shard, so that its last
///         bits depend on the row. With Determinism::LayoutInvariant squares are added exactly
///         (invariant/exact_sum.hpp), in about ten times the time; the bits then depend on the gradients alone, and
///         each all_reduce has 1 KiB.
SINEW_API double gradient_norm(DataParallel& data, std::span<const OwnedPart> parts, const CallOptions& = {});

/// The factor by which gradients are multiplied so that their norm is at most `largest`. 1 if the norm is below that,
/// NaN if the norm is NaN.
/// Source: torch.nn.utils.clip_grad_norm_, with its 1e-6.
SINEW_API double clip_scale(double norm, double largest);

}  // namespace sinew::parallel
