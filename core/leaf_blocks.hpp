#pragma once

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/core/numeric/reduce.hpp>

namespace sinew {

/// The number of leaf blocks. The split dimension is cut into 64 equal blocks, whatever the number of ranks. A
/// layout-invariant sum adds these blocks in one fixed tree. Rank r of P holds the blocks [r * 64 / P, (r + 1) * 64 /
/// P).
inline constexpr int kLeafBlocks = 64;

/// Sums this rank's leaf blocks by the tree. The rank passes the result to an all_reduce, reduce or reduce_scatter with
/// Determinism::LayoutInvariant, which continues the same tree over the ranks. The bits of the final result are equal
/// on 1, 2, 4, 8, 16, 32 and 64 ranks.
/// Shape:  `in` has `blocks` blocks of out.bytes, one behind the other. Their number is a power of two, 64 at most.
///         `out` is one of the blocks, or disjoint from all. Both are host memory.
/// Errors: throws Error{InvalidArgument} on another shape or place, and on an operator that is not defined for dtype.
///         Also on User, and on Average and PreMulSum: scale the leaves or the result instead.
/// Cost:   `in` is read once, in parts that stay in the first cache. Nothing is allocated.
SINEW_API void sum_leaf_blocks(ConstBuffer in, Buffer out, DType dtype, int blocks, ReduceOp op = ReduceOp::Sum);

}  // namespace sinew
