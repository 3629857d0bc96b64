#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/common/counts.hpp>
#include <sinew/parallel/context/sequence_cut.hpp>
#include <sinew/parallel/placement/rows.hpp>

namespace sinew::parallel {

/// Brings several arrays at a time from the tokens of a rank to whole sequences in the order of their positions, and
/// back.
///   to_channels  [sequences, own tokens, channels] to [sequences, all tokens, own channels]   all_to_all_v
///   to_tokens    back                                                                         all_to_all_v
///   gather       [sequences, own tokens, width] to [sequences, all tokens, width]             all_gather_v
///   sum          sums [sequences, all tokens, width] over the ranks, to the tokens' owners    reduce_scatter_v
/// Shape:    own tokens in the order of the rank's pieces. Channels are cut as evenly as possible, in the order of the
///           ranks.
/// Thread:   the World's.
/// Lifetime: ends before the communicator.
/// Errors:   the constructor throws InvalidArgument for a cut of another number of ranks than the group has, and for
///           fewer than one sequence or channel. Otherwise as the collectives.
template <class T>
class SINEW_API SequenceExchange {
 public:
  using From = std::initializer_list<const T*>;
  using To = std::initializer_list<T*>;

  SequenceExchange(CallGroup group, std::int64_t sequences, std::int64_t channels, SequenceCut cut);

  const Rows& channels() const noexcept { return mine(); }

  void to_channels(From tokens, To channels);
  void to_tokens(From channels, To tokens);
  void gather(From tokens, std::int64_t width, To whole);
  void sum(From whole, std::int64_t width, To tokens);

  /// Bytes sent to other ranks so far, at least.
  std::size_t sent_bytes() const noexcept { return sent_; }
  /// Bytes held between calls.
  std::size_t held_bytes() const noexcept { return (going_.size() + coming_.size()) * sizeof(T); }

 private:
  int ranks() const noexcept { return cut_.ranks(); }
  const Rows& mine() const noexcept { return channels_[static_cast<std::size_t>(rank_)]; }
  /// Counts the tokens of all sequences.
  std::int64_t tokens(int rank) const noexcept { return sequences_ * cut_.tokens(rank); }
  /// f(first token in the order of positions, first one in the rank's order, how many), tokens of all sequences.
  template <class F>
  void for_each_piece(int rank, const F& f) const;
  /// The rank's tokens out of whole sequences and into them: one behind the other in `part`.
  void pick(const T* whole, int rank, std::int64_t width, T* part) const;
  void put(const T* part, int rank, std::int64_t width, T* whole) const;
  /// Elements by rank of `arrays` with `width` elements a token.
  Counts counts_of_tokens(std::int64_t arrays, std::int64_t width) const;
  /// Elements by rank of `arrays` with this rank's tokens, each rank's channels.
  Counts counts_of_channels(std::int64_t arrays) const;
  /// going_ to coming_.
  void all_to_all(const Counts& going, const Counts& coming);

  CallGroup group_;
  std::int64_t sequences_, width_;  // channels of all ranks
  SequenceCut cut_;
  int rank_;
  std::vector<Rows> channels_;  // by rank
  std::vector<T> going_, coming_;
  std::size_t sent_ = 0;
};

extern template class SequenceExchange<float>;
extern template class SequenceExchange<double>;

}  // namespace sinew::parallel
