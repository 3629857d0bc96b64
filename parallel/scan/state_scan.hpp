#pragma once

// State-space scans over sequences that ranks share. The room holds the selective scan of Mamba in two forms, and the
// scan by heads of Mamba-2. It also holds the short convolution before them, and the exchanges of all. It may include
// the cuts of sequences of the room `context`, placements and the room `common`.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/context/sequence_cut.hpp>
#include <sinew/parallel/scan/selective_scan.hpp>
#include <sinew/parallel/scan/state_chain.hpp>

namespace sinew::parallel {

/// A selective scan over sequences that the ranks of a group share. Tokens stay on their ranks. Each rank finds out
/// what its pieces do to any state. States then pass from piece to piece. Then each rank scans its pieces with the
/// states that enter them. It is for long sequences, because it sends states only. ChannelScan is the other form.
/// Shape:    of this rank's tokens in the order of its pieces: x, dt, y and their gradients [sequences, tokens,
///           channels]; b, c [sequences, tokens, states]. All sequences are cut alike. kept [kept_elements()]: the
///           states that enter each piece, which forward writes for backward.
/// Thread:   the World's.
/// Lifetime: ends before the communicator.
/// Errors:   InvalidArgument for a cut of another number of ranks, and for sizes below 1. Otherwise as StateChain.
/// Cost:     forward and backward, a StateChain of the pieces each. Pieces that another piece follows are scanned
///           twice.
template <class T>
class SINEW_API StateScan {
 public:
  StateScan(CallGroup group, const ScanSizes& sizes, const SequenceCut& cut);

  std::int64_t kept_elements() const noexcept { return chain_.pieces() * sizes_.state(); }
  /// kept_for(): elements that are kept. room_for(): elements that are held between calls. Both are for `rank`.
  static std::int64_t kept_for(const ScanSizes& sizes, const SequenceCut& cut, int rank) noexcept;
  static std::int64_t room_for(const ScanSizes& sizes, const SequenceCut& cut, int rank) noexcept;

  void forward(const ScanInputs<T>& in, T* y, T* kept);
  /// This rank's share is added to the gradients of a and skip. They are Partial over the group: whoever sums them over
  /// data-parallel ranks includes the group.
  void backward(const ScanInputs<T>& in, const T* kept, const T* dy, const ScanGradients<T>& to);

  /// Bytes that this rank has sent so far.
  std::size_t sent_bytes() const noexcept { return chain_.sent_bytes(); }
  /// Bytes held between calls.
  std::size_t held_bytes() const noexcept {
    return scan_.held_bytes() + chain_.held_bytes() + (summaries_.size() + leaving_.size()) * sizeof(T);
  }

 private:
  using Way = typename StateChain<T>::Way;

  const Rows& run(std::int64_t piece) const noexcept { return runs_[static_cast<std::size_t>(piece)]; }

  ScanSizes sizes_;
  std::vector<Rows> runs_;  // pieces as they lie among this rank's tokens
  SelectiveScan<T> scan_;
  StateChain<T> chain_;
  std::vector<T> summaries_, leaving_;  // by piece; the latter of gradients: what enters from behind
};

extern template class StateScan<float>;
extern template class StateScan<double>;

}  // namespace sinew::parallel
