#pragma once

// Sums and products whose bits do not depend on the layout. A layout-invariant sum cuts the split dimension into leaf
// blocks, whatever the number of ranks, and adds these blocks in one fixed tree. The room may include the room
// `common`.

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// The sum of vectors by the balanced binary tree over their numbers. Vectors may come in any order; a vector waits
/// until its sibling has come. If a rank has an aligned range of the leaves of a tree over all ranks, the root of its
/// own tree is a node of that tree.
/// Thread: one at a time.
/// Cost:   an addition for each vector except the first. If vectors come in ascending order, at most log2(leaves) + 1
///         of them are held.
template <class T>
class SINEW_API TreeSum {
 public:
  /// Errors: InvalidArgument for a number of leaves that is not a power of two.
  TreeSum(std::int64_t leaves, std::size_t elements);

  /// Returns a vector to be filled: one that is not needed any more, or a new one. Its content is undefined.
  std::vector<T> room();
  /// Errors: InvalidArgument for a leaf that does not exist or has already come, and for another number of elements.
  void add(std::int64_t leaf, std::vector<T> values);
  bool is_complete() const noexcept { return count_ == leaves_; }
  /// Returns the sum, and begins anew.
  /// Errors: InvalidArgument if leaves are missing, with their number.
  std::vector<T> take();
  /// Hands over a vector that room() may return.
  void give_back(std::vector<T> vector) { spare_.push_back(std::move(vector)); }
  /// Drops the vectors that wait.
  void clear();

  std::int64_t leaves() const noexcept { return leaves_; }
  std::size_t elements() const noexcept { return elements_; }
  /// Bytes of vectors that wait or are spare.
  std::size_t held_bytes() const noexcept { return (waiting_.size() + spare_.size()) * elements_ * sizeof(T); }

 private:
  using Node = std::pair<int, std::int64_t>;  // its height above the leaves, its number among those of that height

  std::int64_t leaves_, count_ = 0;
  std::size_t elements_;
  int height_ = 0;
  std::map<Node, std::vector<T>> waiting_;
  std::vector<std::vector<T>> spare_;
};

extern template class TreeSum<float>;
extern template class TreeSum<double>;

}  // namespace sinew::parallel
