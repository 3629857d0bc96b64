#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// The sum of vectors by the balanced binary tree over their numbers, in whatever order they come: a vector whose
/// sibling is not there yet waits for it. What a rank has of a tree over all ranks is an aligned range of it, so its
/// root is a node of theirs.
/// Thread: one at a time. Cost: an addition for each vector but the first; of vectors that come in ascending order
///         log2(leaves) + 1 are held at most.
template <class T>
class SINEW_API TreeSum {
 public:
  /// Errors: InvalidArgument for a number of leaves that is no power of two.
  TreeSum(std::int64_t leaves, std::size_t elements);

  /// Room for a vector, of what is not needed any more; what it holds is anybody's.
  std::vector<T> room();
  /// Errors: InvalidArgument for a leaf that is not there or has come already, for another number of elements.
  void add(std::int64_t leaf, std::vector<T> values);
  bool is_complete() const noexcept { return count_ == leaves_; }
  /// The sum; then it begins anew. Errors: InvalidArgument, with how many leaves are missing, where it is not complete.
  std::vector<T> take();
  /// For room().
  void give_back(std::vector<T> vector) { spare_.push_back(std::move(vector)); }
  /// What waits is gone.
  void clear();

  std::int64_t leaves() const noexcept { return leaves_; }
  std::size_t elements() const noexcept { return elements_; }
  /// Of vectors that wait, or are spare.
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
