#pragma once

// Attention over sequences that ranks share. The room cuts sequences over ranks, and holds the attention of blocks, of
// rings, of shared heads, and the layout-invariant one. It may include placements and the room `common`.

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

/// The attention of a context-parallel group. Rank r of the group has number r % sharing among the ranks that share
/// heads, and number r / sharing in a ring. Sharing heads alone is Ulysses. A ring alone is ring attention.
struct ContextShape {
  AttentionHeads heads{};  ///< for a rank's tokens
  SequenceCut cut;         ///< of all ranks of the group
  int sharing = 1;         ///< ranks that share heads; divides the ranks of the cut
  std::int64_t sequences = 1;
  /// Sums do not depend on the number of ranks: InvariantAttention takes the place of the ring, without sinks. Each
  /// head of keys and values must be on one rank only.
  bool invariant = false;

  /// Errors: InvalidArgument for heads that do not fit, and for less than one sequence or sharing rank. Also for
  ///         `sharing` that does not divide the ranks of the cut, and for a rank that does not exist.
  SINEW_API void require(int rank) const;
  /// The heads of number `index` of the ranks that share heads. None if there are more ranks than heads.
  SINEW_API AttentionHeads heads_of(int index) const noexcept;
};

/// Attention with shared heads and a ring. Queries, keys and values arrive with all heads and this rank's tokens. Ranks
/// that share heads exchange them for some heads and the tokens of all these ranks. These then go round the ring of the
/// ranks with the same heads.
/// Shape:    as RingAttention, for this rank's tokens. kept: what backward needs, kept_for() elements.
/// Thread:   the World's.
/// Lifetime: ends before communicators and blas. One object can serve all layers of a model.
/// Errors:   InvalidArgument for a cut of another number of ranks than both groups have. Otherwise as its parts.
/// Cost:     HeadExchange of queries, keys, values and out, forward and backward; RingAttention.
/// Source:   Fang et al., USP, arXiv 2405.07719.
template <class T>
class SINEW_API ContextAttention {
 public:
  ContextAttention(CallGroup sharing, CallGroup ring, Blas& blas, const ContextShape& shape);

  /// sinks [heads]: as RingAttention.
  void forward(std::span<const AttentionMask> masks, const Projections<const T>& in, T* out, T* kept,
               const T* sinks = nullptr);
  /// in and out: as forward had them. If heads are shared they are not used. All of `to` is written.
  void backward(std::span<const AttentionMask> masks, const Projections<const T>& in, const T* out, const T* kept,
                const T* dout, const Projections<T>& to, const T* sinks = nullptr, T* dsinks = nullptr);

  /// kept_for(): elements that are kept. room_for(): elements that the object itself holds. Both are for `rank` of the
  /// whole group.
  /// Errors: as ContextShape::require.
  static std::size_t kept_for(const ContextShape& shape, int rank);
  static std::size_t room_for(const ContextShape& shape, int rank);
  std::size_t held_bytes() const noexcept;
  /// Bytes that this rank has sent so far.
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
  PlacedArray<T> back_;  // gradients by heads: queries, keys, values, out
};

extern template class ContextAttention<float>;
extern template class ContextAttention<double>;

}  // namespace sinew::parallel
