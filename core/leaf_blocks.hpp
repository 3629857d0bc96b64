#pragma once

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/core/numeric/reduce.hpp>

namespace sinew {

/// What a LayoutInvariant sum is a tree over, however many ranks share the work: equal blocks of the dimension that is
/// split. Rank r of P holds the blocks [r * 64 / P, (r + 1) * 64 / P).
inline constexpr int kLeafBlocks = 64;

/// Sums this rank's leaf blocks by the tree: what it then gives to an all_reduce, reduce or reduce_scatter with
/// Determinism::LayoutInvariant, whose ranks go on with the same tree. The bits of the result are the same on 1, 2, 4,
/// ..., 64 ranks.
/// Shape:  `in`: `blocks` blocks of out.bytes each, one behind the other; a power of two of them, 64 at most. `out` may
///         be any of the blocks or disjoint from all. Host memory.
/// Errors: throws Error{InvalidArgument} on another shape or place, on an operator that is not defined for dtype, and
/// on
///         Average, PreMulSum (scale the leaves, or the result) and User.
/// Cost:   `in` is read once, in pieces that stay in the first cache; nothing is allocated.
SINEW_API void sum_leaf_blocks(ConstBuffer in, Buffer out, DType dtype, int blocks, ReduceOp op = ReduceOp::Sum);

}  // namespace sinew
