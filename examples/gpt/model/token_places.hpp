#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/parallel/tensor/dropout.hpp>

#include "block_shape.hpp"

namespace gpt {

/// Which pass of a training run, and where its samples are in the whole batch.
struct Pass {
  std::uint64_t step = 0;
  std::int64_t first_sample = 0;  ///< of this pass
};

/// Where this rank's rows are in sequences and batch.
class TokenPlaces {
 public:
  explicit TokenPlaces(const BlockShape& shape);

  /// Of each position that this rank has of a sequence.
  const std::vector<std::int64_t>& positions() const noexcept { return positions_; }
  /// The position of each row that this rank has between layers.
  std::int64_t position_of(std::int64_t own_row) const noexcept {
    return positions_[static_cast<std::size_t>((first_ + own_row) % tokens_)];
  }

  /// The sequence of the pass that it belongs to.
  std::int64_t sequence_of(std::int64_t own_row) const noexcept { return (first_ + own_row) / tokens_; }

  /// values [own rows, width]: by their places in the batch.
  template <class T>
  void drop(const sinew::parallel::Dropout& dropout, const Pass& pass, T* values) const;

 private:
  std::vector<std::int64_t> positions_;
  std::int64_t tokens_, first_, own_, context_, width_;
};

extern template void TokenPlaces::drop(const sinew::parallel::Dropout&, const Pass&, float*) const;
extern template void TokenPlaces::drop(const sinew::parallel::Dropout&, const Pass&, double*) const;

}  // namespace gpt
