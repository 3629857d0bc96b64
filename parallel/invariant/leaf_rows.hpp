#pragma once

#include <cstdint>
#include <span>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// Rows of a larger matrix that are leaf blocks, one after the other in a rank's memory.
struct LeafRows {
  std::int64_t rows = 0;
  std::int64_t leaf = 0;  ///< rows of a block
  bool folded = false;    ///< the tree takes blocks in folded order: leaves.hpp

  std::int64_t leaves() const noexcept { return leaf > 0 ? rows / leaf : 0; }
  /// The first row of leaf `number` of the tree.
  SINEW_API std::int64_t first_of(std::int64_t number) const noexcept;
  /// The leaf of the tree that a row belongs to.
  SINEW_API std::int64_t leaf_of(std::int64_t row) const noexcept;
};

/// Errors: InvalidArgument if the number of blocks is not a power of two.
SINEW_API void require_leaves(const LeafRows& of);

/// to = the sum of all rows. Each block is summed from its first row to its last. The tree then adds the blocks.
/// Shape:  from [rows, columns], with `stride` elements from one row to the next; to [columns], disjoint from it.
/// Errors: as require_leaves.
/// Cost:   a pass over the rows; room for log2(leaves) + 1 rows.
template <class T>
SINEW_API void sum_leaf_rows(const T* from, const LeafRows& of, std::int64_t columns, std::int64_t stride, T* to);

/// The same sum if only the rows `some` can differ from zero; `some` ascends. The sum is 0 if `some` is empty.
template <class T>
SINEW_API void sum_some_leaf_rows(const T* from, const LeafRows& of, std::span<const std::int64_t> some,
                                  std::int64_t columns, std::int64_t stride, T* to);

extern template void sum_leaf_rows(const float*, const LeafRows&, std::int64_t, std::int64_t, float*);
extern template void sum_leaf_rows(const double*, const LeafRows&, std::int64_t, std::int64_t, double*);
extern template void sum_some_leaf_rows(const float*, const LeafRows&, std::span<const std::int64_t>, std::int64_t,
                                        std::int64_t, float*);
extern template void sum_some_leaf_rows(const double*, const LeafRows&, std::span<const std::int64_t>, std::int64_t,
                                        std::int64_t, double*);

}  // namespace sinew::parallel
