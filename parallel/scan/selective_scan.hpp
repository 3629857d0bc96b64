#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/placement/rows.hpp>
#include <sinew/parallel/scan/scan_data.hpp>

namespace sinew::parallel {

/// The selective state space of Mamba on this rank alone. For each token t, channel d and state n:
///     h_t[d, n] = exp(dt_t[d] * a[d, n]) * h_{t-1}[d, n] + dt_t[d] * b_t[n] * x_t[d]
///     y_t[d]    = sum over n of c_t[n] * h_t[d, n] + skip[d] * x_t[d]
/// A call computes one run of tokens, the same run of every sequence. Pointers are to the first token of a whole
/// sequence, not of the run.
/// Shape:  before, after and their gradients: [sequences, channels, states]. before and dafter null: zeros. after and
///         dbefore null: they are not wanted.
/// Thread: one at a time.
/// Cost:   forward, an exponential for each token, channel and state; backward, two. Backward needs room for (tokens /
///         64 + 2 * 64) * min(channels, 16) * states elements: states are kept before every 64th token of the run, and
///         made again between two of these, for a few channels at a time.
/// Source: Gu & Dao, arXiv 2312.00752.
template <class T>
class SINEW_API SelectiveScan {
 public:
  /// tokens: the number of tokens of each sequence in memory; runs are ranges of these. With 0 channels there is
  /// nothing to do.
  /// Errors: InvalidArgument for less than 1 sequence or state, and for negative numbers.
  SelectiveScan(const ScanSizes& sizes, std::int64_t tokens);

  void forward(const ScanInputs<T>& in, const Rows& run, const T* before, T* y, T* after);
  void backward(const ScanInputs<T>& in, const Rows& run, const T* before, const T* dy, const T* dafter,
                const ScanGradients<T>& to, T* dbefore);

  /// Computes what a run does to a state that enters it: exp(a * dt_sum) times that state, plus `after`, the state that
  /// it leaves when it begins with zero.
  /// Shape: dt_sum [sequences, channels].
  void summary(const ScanInputs<T>& in, const Rows& run, T* dt_sum, T* after);
  /// The same for gradients, which enter a run after its last token: exp(a * dt_sum) times the gradient, plus
  /// `dbefore`, which comes from dy.
  void gradient_summary(const ScanInputs<T>& in, const Rows& run, const T* dy, T* dt_sum, T* dbefore);

  /// Elements that are held between calls.
  static std::int64_t room_for(const ScanSizes& sizes, std::int64_t tokens) noexcept;
  /// Held between calls.
  std::size_t held_bytes() const noexcept {
    return (now_.size() + next_.size() + slopes_.size() + starts_.size() + inside_.size() + decays_.size()) * sizeof(T);
  }

 private:
  static constexpr std::int64_t kChunk = 64;  // tokens whose states are made again at once
  static constexpr std::int64_t kBlock = 16;  // channels: what they have of a token lies side by side

  /// f(sequence, its first token, some channels).
  template <class F>
  void for_each_block(const F& f) const;
  std::int64_t block_elements(const Rows& channels) const noexcept { return channels.count() * sizes_.states; }
  /// `of` null: zeros.
  void load(const T* of, std::int64_t sequence, const Rows& channels, T* to) const;
  void store(const T* from, std::int64_t sequence, const Rows& channels, T* to) const;
  /// Over the run, by sequence and channel.
  void sum_dt(const ScanInputs<T>& in, const Rows& run, T* to) const;
  /// find_decays() computes the share of the states that a token keeps. step() computes the states after it.
  void find_decays(const ScanInputs<T>& in, std::int64_t token, const Rows& channels, T* to) const;
  void step(const ScanInputs<T>& in, std::int64_t token, const Rows& channels, const T* decay, const T* h, T* to) const;
  /// now_ past one token; gradients of states back before it.
  void advance(const ScanInputs<T>& in, std::int64_t token, const Rows& channels);
  void retreat(const ScanInputs<T>& in, std::int64_t token, const Rows& channels, const T* dy);
  void emit(const ScanInputs<T>& in, std::int64_t token, const Rows& channels, const T* h, T* y) const;
  /// States before every kChunk-th token into starts_.
  void find_starts(const ScanInputs<T>& in, std::int64_t first, std::int64_t count, const Rows& channels);
  /// The gradients of a chunk's tokens, its states in inside_; now_ goes from those behind it to those before it.
  void step_back(const ScanInputs<T>& in, std::int64_t token, std::int64_t in_chunk, const Rows& channels, const T* dy,
                 const ScanGradients<T>& to);

  ScanSizes sizes_;
  std::int64_t tokens_;
  std::vector<T> now_, next_, slopes_;       // of a block's states: two tokens in turn, gradients
  std::vector<T> starts_, inside_, decays_;  // states of a block: by chunk, by token of a chunk
};

extern template class SelectiveScan<float>;
extern template class SelectiveScan<double>;

}  // namespace sinew::parallel
