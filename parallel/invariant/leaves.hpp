#pragma once

#include <algorithm>
#include <cstdint>

#include <sinew/core/leaf_blocks.hpp>

// Layout-invariant sums (Determinism::LayoutInvariant). A dimension that ranks share is cut into leaf blocks, whatever
// the number of ranks. Each rank has an aligned power of two of the blocks. It sums each block from its first element
// to its last, and then adds the blocks by the balanced binary tree. A collective with that determinism goes on with
// the tree.
namespace sinew::parallel {

/// Each block costs an addition. So there are at most kFewLeaves blocks if blocks are shorter than kLongLeaf.
inline constexpr std::int64_t kFewLeaves = 16, kLongLeaf = 8;

/// The largest power of two that divides `extent`.
constexpr std::int64_t power_of_two_in(std::int64_t extent) noexcept { return extent < 1 ? 1 : extent & -extent; }

/// The number of leaf blocks of a dimension: a power of two that divides it, at most kLeafBlocks, and fewer if blocks
/// would be short. 1: the dimension cannot be cut.
constexpr std::int64_t leaves_of(std::int64_t extent) noexcept {
  std::int64_t leaves = std::min<std::int64_t>(power_of_two_in(extent), kLeafBlocks);
  while (leaves > kFewLeaves && extent / leaves < kLongLeaf) leaves /= 2;
  return leaves;
}

/// The block that is leaf `leaf` of the tree in folded order: 0, n-1, 1, n-2, ... Each pair of a block and its mirror
/// image is one aligned node. So the two pieces of a zig-zag cut are an aligned range of leaves. A rank's memory has
/// only the blocks of its pieces. The same function, with the rank's number of blocks, gives their order there.
constexpr std::int64_t folded(std::int64_t leaf, std::int64_t blocks) noexcept {
  return leaf % 2 == 0 ? leaf / 2 : blocks - 1 - leaf / 2;
}

}  // namespace sinew::parallel
