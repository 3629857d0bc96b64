#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/context/sequence_cut.hpp>
#include <sinew/parallel/scan/selective_scan.hpp>
#include <sinew/parallel/scan/sequence_exchange.hpp>

namespace sinew::parallel {

/// A selective scan over sequences that the ranks of a group share. Ranks exchange tokens for channels: each rank gets
/// all tokens of some channels, scans them, and gives them back. It scans once in each direction, while StateScan scans
/// twice. But the bytes that it sends grow with the number of tokens. So it is for short sequences and fast links.
/// Shape:    as StateScan; a and skip have all channels. kept: the inputs of all tokens: x and dt of this rank's
///           channels, b and c. Channels are cut as evenly as possible; a rank may have none.
/// Thread:   the World's.
/// Lifetime: ends before the communicator.
/// Errors:   InvalidArgument for a cut of another number of ranks, and for sizes below 1. Otherwise as the collectives.
/// Cost:     with t tokens on each of P ranks, D channels and N states, a rank sends 3 (P-1)/P t D + 2 (P-1) t N
///           elements forward and as many backward. Room for less than four times what is kept.
/// Source:   DeepSpeed Ulysses (Jacobs et al., arXiv 2309.14509), with channels for heads.
template <class T>
class SINEW_API ChannelScan {
 public:
  ChannelScan(CallGroup group, const ScanSizes& sizes, const SequenceCut& cut);

  std::int64_t kept_elements() const noexcept { return 2 * (elements(mine_.channels) + elements(mine_.states)); }

  void forward(const ScanInputs<T>& in, T* y, T* kept);
  /// Adds to the gradients of a and skip for this rank's channels, and leaves those of other channels unchanged. So
  /// they are Partial over the group, as in StateScan.
  void backward(const ScanInputs<T>& in, const T* kept, const T* dy, const ScanGradients<T>& to);

  /// Bytes that this rank has sent so far, at least.
  std::size_t sent_bytes() const noexcept { return exchange_.sent_bytes(); }
  /// Bytes held between calls.
  std::size_t held_bytes() const noexcept {
    return scan_.held_bytes() + exchange_.held_bytes() + (y_.size() + gradients_.size()) * sizeof(T);
  }

 private:
  /// Counts the elements of all tokens.
  std::int64_t elements(std::int64_t width) const noexcept { return mine_.sequences * length_ * width; }
  /// As the scan of this rank's channels takes them.
  ScanInputs<T> whole(const ScanInputs<T>& in, const T* kept) const noexcept;

  std::int64_t length_;
  SequenceExchange<T> exchange_;
  ScanSizes mine_;  // of this rank's channels
  SelectiveScan<T> scan_;
  std::vector<T> y_;          // of all tokens, or its gradient
  std::vector<T> gradients_;  // as what is kept
};

extern template class ChannelScan<float>;
extern template class ChannelScan<double>;

}  // namespace sinew::parallel
