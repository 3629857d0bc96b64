#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/context/sequence_cut.hpp>
#include <sinew/parallel/scan/halo_exchange.hpp>

namespace sinew::parallel {

/// The sizes of a convolution.
struct ConvolutionSizes {
  std::int64_t sequences = 1, channels = 1;
  std::int64_t width = 1;  ///< how many tokens one looks at: itself and those before it
};

/// The short convolution of Mamba over sequences that the ranks of a group share. Each channel is computed by itself:
///     y_t[d] = bias[d] + sum over k of weight[d, k] * x_{t - width + 1 + k}[d], with zeros before the sequence
/// Shape:    of this rank's tokens in the order of its pieces: x, y and their gradients [sequences, tokens, channels].
///           weight [channels, width]; bias [channels] or null for none. kept [kept_elements()]: the tokens before each
///           piece, which forward writes for backward.
/// Thread:   the World's.
/// Lifetime: ends before the communicator.
/// Errors:   InvalidArgument for a cut of another number of ranks, and for sizes below 1. Otherwise as HaloExchange.
/// Cost:     forward and backward, a HaloExchange of width - 1 tokens each.
template <class T>
class SINEW_API CausalConvolution {
 public:
  CausalConvolution(CallGroup group, const ConvolutionSizes& sizes, const SequenceCut& cut);

  std::int64_t kept_elements() const noexcept { return halo_.elements(); }
  /// kept_for(): elements that are kept. room_for(): elements that are held between calls. Both are for `rank`.
  static std::int64_t kept_for(const ConvolutionSizes& sizes, const SequenceCut& cut, int rank);
  static std::int64_t room_for(const ConvolutionSizes& sizes, const SequenceCut& cut, int rank);

  void forward(const T* x, const T* weight, const T* bias, T* y, T* kept);
  /// dx is written. This rank's share is added to dweight and dbias, which are Partial over the group. dbias null:
  /// there is no bias.
  void backward(const T* x, const T* kept, const T* weight, const T* dy, T* dx, T* dweight, T* dbias);

  /// Bytes that this rank has sent so far.
  std::size_t sent_bytes() const noexcept { return halo_.sent_bytes(); }
  /// Bytes held between calls.
  std::size_t held_bytes() const noexcept {
    return halo_.held_bytes() + (taps_.size() + dtaps_.size() + dkept_.size()) * sizeof(T);
  }

 private:
  /// f(own token, tap, token that it looks at, whether that is one of the halo).
  template <class F>
  void for_each_tap(const F& f) const;
  /// weight as [width, channels]: what a token meets at once lies side by side.
  void turn(const T* weight);

  ConvolutionSizes sizes_;
  std::vector<Rows> pieces_;  // as they lie among this rank's tokens
  std::int64_t tokens_;
  HaloExchange<T> halo_;
  std::vector<T> taps_, dtaps_;  // [width, channels]
  std::vector<T> dkept_;
};

extern template class CausalConvolution<float>;
extern template class CausalConvolution<double>;

}  // namespace sinew::parallel
