#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/invariant/leaf_rows.hpp>
#include <sinew/parallel/invariant/leaves.hpp>

namespace sinew::parallel {

std::int64_t LeafRows::first_of(std::int64_t number) const noexcept {
  return leaf * (folded ? parallel::folded(number, leaves()) : number);
}

std::int64_t LeafRows::leaf_of(std::int64_t row) const noexcept {
  const std::int64_t block = row / leaf, all = leaves();
  if (!folded) return block;
  return 2 * block < all ? 2 * block : 2 * (all - 1 - block) + 1;
}

void require_leaves(const LeafRows& of) {
  const bool divides = of.rows >= 1 && of.leaf >= 1 && of.rows % of.leaf == 0;
  if (divides && std::has_single_bit(static_cast<std::uint64_t>(of.leaves()))) return;
  throw Error(Code::InvalidArgument,
              fmt::format("{} rows in leaf blocks of {}: expected a power of two of blocks", of.rows, of.leaf));
}

template <class T>
void sum_leaf_rows(const T* from, const LeafRows& of, std::int64_t columns, std::int64_t stride, T* to) {
  require_leaves(of);
  const auto n = static_cast<std::size_t>(columns);
  const auto leaves = static_cast<std::uint64_t>(of.leaves());
  // Node by node as a counter counts: what waits at a height is that of a left half.
  std::vector<T> waiting(static_cast<std::size_t>(std::bit_width(leaves)) * n);
  for (std::uint64_t leaf = 0; leaf < leaves; ++leaf) {
    std::fill_n(to, n, T{0});
    const T* row = from + of.first_of(static_cast<std::int64_t>(leaf)) * stride;
    for (std::int64_t r = 0; r < of.leaf; ++r, row += stride) {
      for (std::size_t c = 0; c < n; ++c) to[c] += row[c];
    }
    std::size_t height = 0;
    for (; (leaf >> height & 1) != 0; ++height) {
      const T* left = waiting.data() + height * n;
      for (std::size_t c = 0; c < n; ++c) to[c] += left[c];
    }
    std::copy_n(to, n, waiting.data() + height * n);
  }
}

namespace {

/// Rows of leaves [first, first + leaves), of which `some` is not empty, in the order of leaves.
template <class T>
class SomeRows {
 public:
  SomeRows(const T* from, const LeafRows& of, std::int64_t columns, std::int64_t stride)
      : from_(from), of_(of), columns_(static_cast<std::size_t>(columns)), stride_(stride) {}

  void sum(std::span<const std::int64_t> some, std::int64_t first, std::int64_t leaves, T* to) const {
    if (leaves == 1) {
      std::fill_n(to, columns_, T{0});
      for (const std::int64_t row : some) add(from_ + row * stride_, to);
      return;
    }
    const std::int64_t middle = first + leaves / 2;
    const auto split = std::ranges::partition_point(some, [&](std::int64_t row) { return of_.leaf_of(row) < middle; });
    const std::span<const std::int64_t> left(some.begin(), split), right(split, some.end());
    // A sum of rows is never -0. So a sum without rows, which is +0, does not change it.
    if (right.empty()) return sum(left, first, leaves / 2, to);
    if (left.empty()) return sum(right, middle, leaves / 2, to);
    sum(left, first, leaves / 2, to);
    std::vector<T> other(columns_);
    sum(right, middle, leaves / 2, other.data());
    add(other.data(), to);
  }

 private:
  void add(const T* row, T* to) const {
    for (std::size_t c = 0; c < columns_; ++c) to[c] += row[c];
  }

  const T* from_;
  LeafRows of_;
  std::size_t columns_;
  std::int64_t stride_;
};

}  // namespace

template <class T>
void sum_some_leaf_rows(const T* from, const LeafRows& of, std::span<const std::int64_t> some, std::int64_t columns,
                        std::int64_t stride, T* to) {
  require_leaves(of);
  std::fill_n(to, columns, T{0});
  if (some.empty()) return;
  std::vector<std::int64_t> by_leaf(some.begin(), some.end());
  std::ranges::stable_sort(by_leaf, {}, [&](std::int64_t row) { return of.leaf_of(row); });
  SomeRows<T>(from, of, columns, stride).sum(by_leaf, 0, of.leaves(), to);
}

template void sum_leaf_rows(const float*, const LeafRows&, std::int64_t, std::int64_t, float*);
template void sum_leaf_rows(const double*, const LeafRows&, std::int64_t, std::int64_t, double*);

template void sum_some_leaf_rows(const float*, const LeafRows&, std::span<const std::int64_t>, std::int64_t,
                                 std::int64_t, float*);
template void sum_some_leaf_rows(const double*, const LeafRows&, std::span<const std::int64_t>, std::int64_t,
                                 std::int64_t, double*);

}  // namespace sinew::parallel
