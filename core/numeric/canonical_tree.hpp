#pragma once

#include <bit>
#include <cstddef>
#include <span>

#include <sinew/core/base/export.hpp>
#include <sinew/core/numeric/reduce.hpp>

namespace sinew {

/// The one order of sums whose bits are the same wherever it is kept to: a balanced binary tree over leaves first,
/// first + 1, ... (the ranks of a communicator, the leaf blocks of a buffer), aligned at powers of two. The left half
/// of n leaves is the largest power of two below n, so that leaves which are not there are skipped: 6 of them are
/// ((0 1)(2 3))(4 5). Which operand of a node comes first does not matter: no built-in kernel's bits depend on it.
/// `leaf(i)` is what leaf i holds, `combine(left, right)` what a node makes of its halves. Returns what the root holds.
/// Shape: at least one leaf. Halves are visited from left to right, a node after both.
template <class Leaf, class Combine>
auto over_canonical_tree(int first, int leaves, const Leaf& leaf, const Combine& combine) -> decltype(leaf(first)) {
  if (leaves == 1) return leaf(first);
  const int half = static_cast<int>(std::bit_ceil(static_cast<unsigned>(leaves)) / 2);
  const auto left = over_canonical_tree(first, half, leaf, combine);
  const auto right = over_canonical_tree(first + half, leaves - half, leaf, combine);
  return combine(left, right);
}

/// dst = sources[0] (op) sources[1] ... by the canonical tree: the bits that schedules give where the sources are
/// ranks. Shape: 1 to 65,536 sources of `bytes` each; dst may be one of them or disjoint from all; any alignment. Cost:
/// each source is read once and dst written once; partial sums stay in the first cache.
SINEW_API void reduce_by_tree(const Reducer& reduce, void* dst, std::span<const void* const> sources,
                              std::size_t bytes) noexcept;

}  // namespace sinew
