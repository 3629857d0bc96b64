#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/context/block_attention.hpp>
#include <sinew/parallel/context/projections.hpp>
#include <sinew/parallel/context/sequence_cut.hpp>

namespace sinew::parallel {

/// Attention over sequences that the ranks of a group share. Each rank keeps its queries. Keys and values go round the
/// ring of the ranks: those of the next step are sent while the present ones are computed with. In the backward pass
/// the gradients of keys and values go round with them.
/// Shape:    tokens of this rank, of each sequence, in the order of its pieces: projections as Projections says; out,
///           dout [sequences, tokens, heads * head_width]; lse [sequences, tokens, heads].
/// Thread:   the World's.
/// Lifetime: ends before communicator and blas.
/// Errors:   InvalidArgument for a cut of another number of ranks, and unless there is one mask, or one for each
///           sequence. InvalidArgument for sinks on a device. Otherwise as sendrecv.
/// Cost:     room for the keys and values of two ranks and for their gradients. A group of one rank needs no such room.
///           A rank sends P - 1 times the keys and values of one rank, and backward P - 1 times these and P times their
///           gradients. Work: SequenceCut::pairs, in tiles.
/// Source:   Liu et al., arXiv 2310.01889; sinks: Xiao et al., arXiv 2309.17453, as learnt scores in gpt-oss.
template <class T>
class SINEW_API RingAttention {
 public:
  RingAttention(CallGroup group, Blas& blas, const AttentionHeads& heads, SequenceCut cut, std::int64_t sequences = 1);

  /// masks: one for each sequence, or one for all. sinks [heads]: for each head a score that every query sees and that
  /// has no value. null: none.
  void forward(std::span<const AttentionMask> masks, const Projections<const T>& in, T* out, T* lse,
               const T* sinks = nullptr);
  /// Overwrites all of `to`. dsinks: the contribution of this rank's tokens, Partial over the group.
  void backward(std::span<const AttentionMask> masks, const Projections<const T>& in, const T* out, const T* lse,
                const T* dout, const Projections<T>& to, const T* sinks = nullptr, T* dsinks = nullptr);

  /// The pairs that this rank has computed so far.
  std::int64_t computed_pairs() const noexcept { return block_.computed_pairs(); }
  std::size_t sent_bytes() const noexcept { return sent_; }
  /// Bytes held between calls: room_for() elements.
  std::size_t held_bytes() const noexcept { return (4 * now_.size() + along_.size()) * sizeof(T); }
  static std::size_t room_for(const AttentionHeads& heads, const SequenceCut& cut, int rank,
                              std::int64_t sequences) noexcept;
  const AttentionHeads& heads() const noexcept { return block_.heads(); }
  /// Tokens of this rank, of all sequences.
  std::int64_t tokens() const noexcept { return sequences_ * cut_.tokens(rank_); }

 private:
  /// A piece of queries and a piece of keys that are computed with each other.
  struct Meeting {
    Tokens<const T> queries, keys, values;
    std::int64_t query, key;  // number of their first token among those of a rank
    const AttentionMask* mask;
  };

  std::int64_t half(int rank) const noexcept {
    return sequences_ * cut_.tokens(rank) * block_.heads().key_value_width();
  }
  /// The rank whose keys and values are here at a step.
  int owner(int step) const noexcept { return (rank_ - step % ranks_ + ranks_) % ranks_; }
  void require(std::span<const AttentionMask> masks) const;
  void require_sinks(const T* sinks) const;
  void pack(const Projections<const T>& in);
  /// Keys and values, or gradients, of a rank in what goes round; in a group of one in `own`, where they are.
  template <class U>
  Projections<U> travelling(U* all, int owner, const Projections<U>& own) const noexcept;
  void sum_along(const T* out, const T* dout);
  void take_in(const T* sinks, T* out, T* lse) const;
  void sink_gradients(const T* sinks, const T* lse, T* dsinks) const;
  /// Sends `from`, of `owner(step)`, on and takes that of owner(step + 1) into `to`.
  Work pass_on(int step, const PlacedArray<T>& from, const PlacedArray<T>& to);
  /// f(Meeting) of each piece of this rank and each of the owner.
  template <class F>
  void for_each_meeting(std::span<const AttentionMask> masks, const Projections<const T>& in, int owner, const F& f);

  CallGroup group_;
  SequenceCut cut_;
  std::int64_t sequences_;
  int rank_, ranks_;
  ComputeDevice device_;
  std::shared_ptr<const LayerMath<T>> math_;
  BlockAttention<T> block_;
  PlacedArray<T> now_, next_;                  // keys, then values; in a group of one empty
  PlacedArray<T> gradients_, next_gradients_;  // of these
  PlacedArray<T> along_;                       // BlockAttention::backward
  std::size_t sent_ = 0;
};

extern template class RingAttention<float>;
extern template class RingAttention<double>;

}  // namespace sinew::parallel
