#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/context/attention_mask.hpp>
#include <sinew/parallel/placement/rows.hpp>

namespace sinew::parallel {

/// The positions of a sequence that each rank of a context-parallel group has. A rank has pieces in ascending order,
/// which lie one after the other in its memory. Any length is possible: pieces differ by at most one position, and may
/// be empty.
///   contiguous  rank r has piece r of P. Under a causal mask the last rank has nearly all the work.
///   zig_zag     rank r has pieces r and 2P-1-r of 2P. Work under a causal mask is equal, except for a remainder.
/// Source: zig-zag as in ring-flash-attention and Megatron-LM.
class SINEW_API SequenceCut {
 public:
  /// Errors: InvalidArgument for a negative length or less than one rank.
  static SequenceCut contiguous(std::int64_t length, int ranks);
  static SequenceCut zig_zag(std::int64_t length, int ranks);
  /// Packed documents, one after the other, each cut in zig-zag. Work is equal for documents of any length. Remainders
  /// go to the ranks in turn, from document to document.
  static SequenceCut zig_zag(const std::vector<std::int64_t>& documents, int ranks);

  /// A cut in which rank r has what ranks r * each to (r + 1) * each - 1 have together.
  /// Errors: InvalidArgument if `each` does not divide the ranks.
  SequenceCut joined(int each) const;

  int ranks() const noexcept { return static_cast<int>(pieces_.size()); }
  std::int64_t length() const noexcept { return length_; }
  /// Global positions, without empty pieces.
  const std::vector<Rows>& pieces(int rank) const { return pieces_[static_cast<std::size_t>(rank)]; }
  std::int64_t tokens(int rank) const noexcept;
  std::int64_t most_tokens() const noexcept;
  /// The global position of each token of a rank.
  std::vector<std::int64_t> positions(int rank) const;
  /// Pairs of a query of `rank` and a key that it sees: the work of attention on that rank.
  std::int64_t pairs(int rank, const AttentionMask& mask) const noexcept;
  friend bool operator==(const SequenceCut&, const SequenceCut&) = default;

 private:
  SequenceCut(std::int64_t length, std::vector<std::vector<Rows>> pieces)
      : length_(length), pieces_(std::move(pieces)) {}

  std::int64_t length_;
  std::vector<std::vector<Rows>> pieces_;
};

}  // namespace sinew::parallel
