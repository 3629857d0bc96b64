#pragma once

#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/context/sequence_cut.hpp>
#include <sinew/parallel/expert/routing.hpp>
#include <sinew/parallel/modules/layers/linear_module.hpp>

namespace sinew::parallel {

/// The sequences and positions of the rows that this rank has between layers, for the sequences of one pass.
class SINEW_API TokenPlaces {
 public:
  /// cut: of each sequence over the ranks that share it, of which this rank is `context_rank`.
  TokenPlaces(const LayerGroup& group, std::int64_t sequences, const SequenceCut& cut, int context_rank);

  /// The positions of a sequence, of all ranks together.
  std::int64_t length() const noexcept { return length_; }
  /// The rows of the tensor-parallel group in a pass, and those that this rank has between layers.
  std::int64_t rows() const noexcept { return sequences_ * tokens_; }
  std::int64_t own_rows() const noexcept { return own_; }
  std::int64_t sequences() const noexcept { return sequences_; }
  /// The positions of a sequence that the tensor-parallel group has.
  const std::vector<std::int64_t>& positions() const noexcept { return positions_; }
  std::int64_t position_of(std::int64_t own_row) const noexcept {
    return positions_[static_cast<std::size_t>((first_ + own_row) % tokens_)];
  }
  /// The sequence of a row, counted within the pass.
  std::int64_t sequence_of(std::int64_t own_row) const noexcept { return (first_ + own_row) / tokens_; }
  /// The places of all own rows, as routers' losses and limits take them.
  TokenPositions token_positions() const;

  /// The numbers of all own rows among the tokens of the pass's sequences, as Dropout counts rows.
  std::vector<std::int64_t> row_numbers() const;

 private:
  std::vector<std::int64_t> positions_;
  std::int64_t sequences_, length_, tokens_, first_, own_;
};

}  // namespace sinew::parallel
