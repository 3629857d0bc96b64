#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/compute/blas.hpp>
#include <sinew/parallel/context/sequence_cut.hpp>
#include <sinew/parallel/scan/head_scan.hpp>
#include <sinew/parallel/scan/state_chain.hpp>

namespace sinew::parallel {

/// A scan by heads (Mamba-2) over sequences that the ranks of a group share. Tokens stay on their ranks, as in
/// StateScan. Each rank finds out what its pieces do to any state. States then pass from piece to piece. Then each rank
/// scans its pieces with the states that enter them.
/// Shape:    of this rank's tokens in the order of its pieces, as HeadScan has them. All sequences are cut alike. kept
///           [kept_elements()]: the states that enter each piece, which forward writes for backward.
/// Thread:   the World's.
/// Lifetime: ends before the communicator and blas.
/// Errors:   InvalidArgument for a cut of another number of ranks. Otherwise as HeadScan and StateChain.
/// Cost:     forward and backward, a StateChain of the pieces each. For pieces that another piece follows, the states
///           are computed twice.
template <class T>
class SINEW_API HeadStateScan {
 public:
  HeadStateScan(CallGroup group, Blas& blas, const HeadScanSizes& sizes, const SequenceCut& cut,
                std::int64_t chunk = HeadScan<T>::kChunk);

  std::int64_t kept_elements() const noexcept { return chain_.pieces() * sizes_.state(); }
  /// kept_for(): elements that are kept. room_for(): elements that are held between calls. Both are for `rank`.
  static std::int64_t kept_for(const HeadScanSizes& sizes, const SequenceCut& cut, int rank) noexcept;
  static std::int64_t room_for(const HeadScanSizes& sizes, const SequenceCut& cut, int rank,
                               std::int64_t chunk = HeadScan<T>::kChunk) noexcept;

  void forward(const HeadScanInputs<T>& in, T* y, T* kept);
  /// This rank's share is added to the gradients of a and skip. They are Partial over the group: whoever sums them over
  /// data-parallel ranks includes the group.
  void backward(const HeadScanInputs<T>& in, const T* kept, const T* dy, const HeadScanGradients<T>& to);

  /// Bytes that this rank has sent so far.
  std::size_t sent_bytes() const noexcept { return chain_.sent_bytes(); }
  /// Bytes held between calls.
  std::size_t held_bytes() const noexcept {
    return scan_.held_bytes() + chain_.held_bytes() + (summaries_.size() + leaving_.size() + rates_.size()) * sizeof(T);
  }

 private:
  using Way = typename StateChain<T>::Way;

  const Rows& run(std::int64_t piece) const noexcept { return runs_[static_cast<std::size_t>(piece)]; }
  /// a of each head for each element of its state, as the chain takes it.
  const T* rates_of(const T* a);

  HeadScanSizes sizes_;
  std::vector<Rows> runs_;  // pieces as they lie among this rank's tokens
  HeadScan<T> scan_;
  StateChain<T> chain_;
  std::vector<T> summaries_, leaving_;  // by piece; the latter of gradients: what enters from behind
  std::vector<T> rates_;
};

extern template class HeadStateScan<float>;
extern template class HeadStateScan<double>;

}  // namespace sinew::parallel
