#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sinew::parallel {

/// All places of the labels of a rule on one rank, and where each tensor has its element of a place. A tensor that
/// lacks a label has one element for all places of it.
/// Shape: dimensions of one label each. Tensors are counted as in the rule: operands, then results.
class LabelSpace {
 public:
  /// extents: of this rank's parts of operands, then of results. only: the labels that the space has; empty: all.
  /// The labels of the first result come first, and the last label varies fastest.
  LabelSpace(const std::string& rule, std::span<const std::vector<std::int64_t>> extents, const std::string& only = {});

  /// Calls `visit` with the numbers of the elements of these tensors at each place.
  template <std::size_t N, class Visit>
  void walk(const std::array<std::size_t, N>& tensors, const Visit& visit) const {
    if (places_ == 0) return;
    const std::size_t dims = extents_.size();
    std::array<std::int64_t, N> at{}, inner{};
    const std::int64_t columns = dims == 0 ? 1 : extents_.back();
    for (std::size_t k = 0; k < N && dims > 0; ++k) inner[k] = strides_[tensors[k]].back();
    std::vector<std::int64_t> index(dims, 0);
    for (;;) {
      std::array<std::int64_t, N> here = at;
      for (std::int64_t c = 0; c < columns; ++c) {
        visit(here);
        for (std::size_t k = 0; k < N; ++k) here[k] += inner[k];
      }
      std::size_t d = dims < 2 ? 0 : dims - 1;
      for (; d > 0; --d) {
        const std::size_t i = d - 1;
        for (std::size_t k = 0; k < N; ++k) at[k] += strides_[tensors[k]][i];
        if (++index[i] < extents_[i]) break;
        for (std::size_t k = 0; k < N; ++k) at[k] -= strides_[tensors[k]][i] * extents_[i];
        index[i] = 0;
      }
      if (d == 0) return;
    }
  }

 private:
  std::vector<std::int64_t> extents_;
  std::vector<std::vector<std::int64_t>> strides_;  // for each tensor, for each label
  std::int64_t places_ = 1;
};

}  // namespace sinew::parallel
