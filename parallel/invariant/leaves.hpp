#pragma once

#include <algorithm>
#include <cstdint>

#include <sinew/core/leaf_blocks.hpp>

// What layout-invariant sums (Determinism::LayoutInvariant) are trees over: a dimension that ranks share is cut into
// leaf blocks, whoever shares it; a rank has an aligned power of two of them, sums each block from its first element to
// its last, and the blocks by the balanced binary tree, which a collective of that level goes on with.
namespace sinew::parallel {

/// Each block is an addition more: no more than these of blocks that are shorter than that.
inline constexpr std::int64_t kFewLeaves = 16, kLongLeaf = 8;

/// The largest power of two that divides it.
constexpr std::int64_t power_of_two_in(std::int64_t extent) noexcept { return extent < 1 ? 1 : extent & -extent; }

/// Leaf blocks of a dimension: a power of two that divides it, kLeafBlocks at most, less where they would be short. 1:
/// it cannot be cut.
constexpr std::int64_t leaves_of(std::int64_t extent) noexcept {
  std::int64_t leaves = std::min<std::int64_t>(power_of_two_in(extent), kLeafBlocks);
  while (leaves > kFewLeaves && extent / leaves < kLongLeaf) leaves /= 2;
  return leaves;
}

/// The block that is leaf `leaf` of the tree, where blocks are folded: 0, n-1, 1, n-2, ... Each pair of a block and its
/// mirror image is one aligned node, so the two pieces of a zig-zag cut are an aligned range of leaves, and lie in a
/// rank's memory as if they were all: the same function, of the rank's number of blocks, finds them there.
constexpr std::int64_t folded(std::int64_t leaf, std::int64_t blocks) noexcept {
  return leaf % 2 == 0 ? leaf / 2 : blocks - 1 - leaf / 2;
}

}  // namespace sinew::parallel
