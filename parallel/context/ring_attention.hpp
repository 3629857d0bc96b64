#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/export.hpp>
#include <sinew/parallel/context/block_attention.hpp>
#include <sinew/parallel/context/sequence_cut.hpp>

namespace sinew::parallel {

/// Attention over a sequence that the ranks of a group share: each keeps its queries, keys and values go round the
/// ring, those of the next step on their way while the present ones are computed with. Backward their gradients go
/// with them.
/// Shape:    of this rank's tokens in the order of its pieces, contiguous: queries, out, dout, dqueries
///           [tokens, heads * head_width]; keys, values and their gradients [tokens, key_value_heads * head_width];
///           lse [tokens, heads].
/// Thread:   the World's. Lifetime: ends before communicator and blas.
/// Errors:   InvalidArgument for a cut of another number of ranks; as sendrecv.
/// Cost:     room for the keys and values of two ranks, backward for their gradients, too; a rank sends P - 1 times the
///           keys and values of one, backward P - 1 times these and P times their gradients. Work: SequenceCut::pairs,
///           in tiles.
/// Source:   Liu et al., arXiv 2310.01889.
template <class T>
class SINEW_API RingAttention {
 public:
  RingAttention(Communicator& group, Blas& blas, const AttentionHeads& heads, SequenceCut cut, bool causal);

  void forward(const T* queries, const T* keys, const T* values, T* out, T* lse);
  /// Adds to nothing: dqueries, dkeys and dvalues are written.
  void backward(const T* queries, const T* keys, const T* values, const T* out, const T* lse, const T* dout,
                T* dqueries, T* dkeys, T* dvalues);

  /// Since it was made, of this rank.
  std::int64_t computed_pairs() const noexcept { return block_.computed_pairs(); }
  std::size_t sent_bytes() const noexcept { return sent_; }
  /// Held between calls.
  std::size_t held_bytes() const noexcept {
    return (now_.size() + next_.size() + gradients_.size() + next_gradients_.size()) * sizeof(T);
  }

 private:
  std::int64_t elements(int rank) const noexcept { return 2 * cut_.tokens(rank) * block_.heads().key_value_width(); }
  /// Whose keys and values are here at a step.
  int owner(int step) const noexcept { return (rank_ - step % ranks_ + ranks_) % ranks_; }
  void pack(const T* keys, const T* values);
  /// Sends `from`, of `owner(step)`, on and takes that of owner(step + 1) into `to`.
  Work pass_on(int step, std::vector<T>& from, std::vector<T>& to);
  /// f(queries of a piece, keys, values of a piece, tokens before these of each).
  template <class F>
  void for_each_piece(const T* queries, int owner, const F& f);

  Communicator* group_;
  SequenceCut cut_;
  int rank_, ranks_;
  BlockAttention<T> block_;
  std::vector<T> now_, next_;                  // keys, then values
  std::vector<T> gradients_, next_gradients_;  // of these
  std::size_t sent_ = 0;
};

extern template class RingAttention<float>;
extern template class RingAttention<double>;

}  // namespace sinew::parallel
