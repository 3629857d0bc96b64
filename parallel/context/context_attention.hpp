#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/context/head_exchange.hpp>
#include <sinew/parallel/context/invariant_attention.hpp>
#include <sinew/parallel/context/ring_attention.hpp>

namespace sinew::parallel {

/// Attention of a context-parallel group. Rank r of it is number r % sharing of those that share heads, and number
/// r / sharing of a ring: the one alone is Ulysses, the other ring attention.
struct ContextShape {
  AttentionHeads heads;  ///< of a rank's tokens
  SequenceCut cut;       ///< of all ranks of the group
  int sharing = 1;       ///< ranks that share heads; divides those of the cut
  std::int64_t sequences = 1;
  /// Sums do not show how many ranks there are: InvariantAttention in the place of the ring, without sinks. Heads of
  /// keys and values fall on one rank each.
  bool invariant = false;

  /// Errors: InvalidArgument for heads that do not fit, for less than one sequence or sharer, for sharers that do not
  ///         divide the ranks of the cut, and for a rank that there is not.
  SINEW_API void require(int rank) const;
  /// What number `index` of those that share heads has of them. None at all where there are more ranks than heads.
  SINEW_API AttentionHeads heads_of(int index) const noexcept;
};

/// Queries, keys and values come with all heads and this rank's tokens; among ranks that share heads they are
/// exchanged for some heads and all these ranks' tokens, which then go round the ring of their like.
/// Shape:    as RingAttention, of this rank's tokens. kept: what backward needs, kept_for() elements.
/// Thread:   the World's. Lifetime: ends before communicators and blas. One will do for all layers of a model.
/// Errors:   InvalidArgument for a cut of another number of ranks than both groups have; as the parts.
/// Cost:     HeadExchange of queries, keys, values and out, forward and backward; RingAttention.
/// Source:   Fang et al., USP, arXiv 2405.07719.
template <class T>
class SINEW_API ContextAttention {
 public:
  ContextAttention(CallGroup sharing, CallGroup ring, Blas& blas, const ContextShape& shape);

  /// sinks [heads]: as RingAttention.
  void forward(std::span<const AttentionMask> masks, const Projections<const T>& in, T* out, T* kept,
               const T* sinks = nullptr);
  /// in and out: as forward had them; where heads are shared they are not looked at. All of `to` is written.
  void backward(std::span<const AttentionMask> masks, const Projections<const T>& in, const T* out, const T* kept,
                const T* dout, const Projections<T>& to, const T* sinks = nullptr, T* dsinks = nullptr);

  /// Elements of what is kept, and of what the object holds itself, on a rank of the whole group.
  /// Errors: as ContextShape::require.
  static std::size_t kept_for(const ContextShape& shape, int rank);
  static std::size_t room_for(const ContextShape& shape, int rank);
  std::size_t held_bytes() const noexcept;
  /// By this rank, since it was made.
  std::size_t sent_bytes() const noexcept;
  std::int64_t computed_pairs() const noexcept {
    return invariant_ ? invariant_->computed_pairs() : ring_->computed_pairs();
  }

 private:
  /// Where values by heads lie in one piece of memory: queries, keys, values, out, then lse.
  struct Plan {
    std::int64_t queries = 0, key_values = 0, lse = 0;
  };
  static Plan plan_of(const ContextShape& shape, int rank);
  void forward_around(std::span<const AttentionMask> masks, const Projections<const T>& in, T* out, T* lse,
                      const T* sinks);
  void backward_around(std::span<const AttentionMask> masks, const Projections<const T>& in, const T* out, const T* lse,
                       const T* dout, const Projections<T>& to, const T* sinks, T* dsinks);
  template <class U>
  static Projections<U> projections(U* at, const Plan& plan, const AttentionHeads& heads) noexcept;

  ContextShape shape_;
  AttentionHeads mine_;
  std::int64_t first_head_;                              // of mine_
  std::optional<RingAttention<T>> ring_;                 // or
  std::optional<InvariantAttention<T>> invariant_;       // of shapes that ask for it
  std::optional<HeadExchange<T>> queries_, key_values_;  // none where no heads are shared
  Plan plan_;
  std::vector<T> back_;  // gradients by heads: queries, keys, values, out
};

extern template class ContextAttention<float>;
extern template class ContextAttention<double>;

}  // namespace sinew::parallel
