#pragma once

#include <sinew/parallel/placement/rows.hpp>

#include "shape.hpp"

namespace gpt {

/// What one rank of a tensor-parallel group has of a model: heads of attention, the MLP's inner elements, rows of the
/// vocabulary; each as even as can be.
struct Part {
  int rank = 0, ranks = 1;
  bool sequence_parallel = false;  ///< between layers it has a part of the rows, too

  sinew::parallel::Rows of(std::int64_t extent) const noexcept {
    return sinew::parallel::rows_of({}, rank, ranks, extent);
  }
  /// Elements of an activation that its heads make.
  sinew::parallel::Rows mixed(const Shape& shape) const noexcept {
    const auto heads = of(shape.heads);
    return {heads.first * shape.head_width(), heads.last * shape.head_width()};
  }
  sinew::parallel::Rows bent(const Shape& shape) const noexcept { return of(4 * std::int64_t{shape.width}); }
  sinew::parallel::Rows vocabulary() const noexcept { return of(kVocabulary); }
  /// Rows that it has between layers, of so many.
  sinew::parallel::Rows rows(std::int64_t all) const noexcept {
    return sequence_parallel ? of(all) : sinew::parallel::Rows{0, all};
  }
};

}  // namespace gpt
