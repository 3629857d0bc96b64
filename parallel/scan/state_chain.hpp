#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/context/sequence_cut.hpp>
#include <sinew/parallel/scan/scan_data.hpp>

namespace sinew::parallel {

/// Passes states through the pieces of all ranks in the order of their positions, and gradients of states in the
/// reverse order. A summary says what a piece does to a state, whatever its length: the sum s of dt, and the state h
/// that the piece leaves when it begins with zero. The piece turns a state x into exp(a * s) * x + h.
/// Two pieces in a row have a summary of the same kind. So the states that enter all pieces are found in log2(pieces)
/// rounds. In round k each piece sends the summary of the 2^k pieces that end with it to the piece 2^k places further.
/// Shape:    a summary: s [sequences, channels], then h [sequences, channels, states].
/// Thread:   the World's.
/// Lifetime: ends before the communicator.
/// Errors:   as Communicator::group.
/// Cost:     ceil(log2(pieces)) rounds with a summary for each piece of this rank, whatever their lengths.
/// Source:   Hillis & Steele, Data parallel algorithms, 1986; as an associative operator: Blelloch, CMU-CS-90-190.
template <class T>
class SINEW_API StateChain {
 public:
  enum class Way : std::uint8_t { FirstToLast, LastToFirst };

  StateChain(CallGroup group, const ScanSizes& sizes, const SequenceCut& cut);

  /// Pieces of this rank.
  std::int64_t pieces() const noexcept { return static_cast<std::int64_t>(own_.size()); }
  std::int64_t summary() const noexcept { return dt_sums() + sizes_.state(); }
  std::int64_t dt_sums() const noexcept { return sizes_.sequences * sizes_.channels; }
  /// Returns whether another piece follows this one. Nobody asks for the summary of the last piece.
  bool is_followed(std::int64_t piece, Way way) const noexcept { return place(piece, way) + 1 < links(); }

  /// own: a summary for each piece. entering: [pieces, sequences, channels, states], zeros for the first piece.
  void pass(Way way, const T* a, const T* own, T* entering);

  std::size_t sent_bytes() const noexcept { return sent_; }
  std::size_t held_bytes() const noexcept { return (before_.size() + going_.size() + coming_.size()) * sizeof(T); }

 private:
  std::int64_t links() const noexcept { return static_cast<std::int64_t>(owners_.size()); }
  std::int64_t place(std::int64_t piece, Way way) const noexcept {
    const std::int64_t at = own_[static_cast<std::size_t>(piece)];
    return way == Way::FirstToLast ? at : links() - 1 - at;
  }
  int owner(std::int64_t place, Way way) const noexcept {
    return owners_[static_cast<std::size_t>(way == Way::FirstToLast ? place : links() - 1 - place)];
  }
  /// Joins the summaries of two pieces in a row. `to` may be `then`.
  void join(const T* a, const T* first, const T* then, T* to) const;
  /// From going_ to coming_, `span` places on.
  void exchange(Way way, std::int64_t span);

  CallGroup group_;
  ScanSizes sizes_;
  std::vector<int> owners_;                 // by place from the first piece
  std::vector<std::int64_t> own_;           // places of this rank's
  std::vector<T> before_, going_, coming_;  // a summary per piece of this rank
  std::size_t sent_ = 0;
};

extern template class StateChain<float>;
extern template class StateChain<double>;

}  // namespace sinew::parallel
