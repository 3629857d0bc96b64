#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/compute/blas.hpp>
#include <sinew/parallel/context/attention_mask.hpp>
#include <sinew/parallel/context/block_attention.hpp>
#include <sinew/parallel/context/projections.hpp>
#include <sinew/parallel/context/sequence_cut.hpp>

namespace sinew::parallel {

/// Attention whose bits do not depend on how many ranks share the sequences. Each rank gets the keys and values of
/// whole sequences. All sums go from the first position to the last. Outputs and gradients of queries are summed over
/// keys. Gradients of keys and values are summed over queries, so each rank also gets all queries. Calls and shapes are
/// those of RingAttention.
/// Thread:   the World's.
/// Lifetime: ends before communicator and blas. blas is an InvariantBlas.
/// Errors:   InvalidArgument for a cut of another number of ranks, and for a cut whose ranks have unequal numbers of
///           positions. InvalidArgument unless there is one mask, or one for each sequence. Otherwise as all_gather.
/// Cost:     an all_gather of keys and values, forward and backward. Backward also gathers queries, gradients of out,
///           and two numbers for each query and head. An object has room for whole sequences of all of these, and for
///           the scores of some queries with a whole sequence. A group of one rank has room for the scores only. In
///           larger groups the backward pass computes scores twice.
template <class T>
class SINEW_API InvariantAttention {
 public:
  InvariantAttention(CallGroup group, Blas& blas, const AttentionHeads& heads, SequenceCut cut,
                     std::int64_t sequences = 1);

  void forward(std::span<const AttentionMask> masks, const Projections<const T>& in, T* out, T* lse);
  void backward(std::span<const AttentionMask> masks, const Projections<const T>& in, const T* out, const T* lse,
                const T* dout, const Projections<T>& to);

  /// Pairs of a query and a key that were computed forward so far, for one head.
  std::int64_t computed_pairs() const noexcept { return pairs_; }
  /// Bytes sent to other ranks so far.
  std::size_t sent_bytes() const noexcept { return sent_; }
  std::size_t held_bytes() const noexcept;
  /// Elements that an object holds between calls.
  static std::size_t room_for(const AttentionHeads& heads, const SequenceCut& cut, std::int64_t sequences) noexcept;

 private:
  static constexpr std::int64_t kTile = 32;  // the queries, or the keys, that are computed at once

  /// An array [tokens, ...] with `stride` elements from one token to the next.
  struct Side {
    const T* data = nullptr;
    std::int64_t stride = 0;

    const T* row(std::int64_t token) const noexcept { return data + token * stride; }
  };
  /// Tokens of this rank that follow each other. own: the first token's number among all tokens of this rank. position:
  /// its position in the sequence.
  struct Tile {
    std::int64_t sequence = 0, own = 0, position = 0, count = 0;
    const AttentionMask* mask = nullptr;
  };

  std::int64_t tokens() const noexcept { return sequences_ * own_; }
  /// The index of a sequence's first token in an array of whole sequences.
  std::int64_t begin_of(std::int64_t sequence) const noexcept { return sequence * cut_.length(); }
  void require(std::span<const AttentionMask> masks) const;
  /// Gathers `width` columns from all ranks, sequence by sequence in the order of positions. In a group of one rank it
  /// returns `own`.
  Side whole(const Side& own, std::int64_t width, std::vector<T>& room);
  void gather_keys_values(const Projections<const T>& in);
  void sum_along(const T* out, const T* dout);
  /// Calls f(Tile) for all tokens of this rank.
  template <class F>
  void for_each_tile(std::span<const AttentionMask> masks, const F& f) const;
  /// The keys that the queries of a tile see.
  Rows seen_by(const Tile& queries) const noexcept;
  /// Computes for one head: to [rows, columns] = scale * x * y^T, with rows of the head's width.
  void multiply(const T* x, std::int64_t x_stride, std::int64_t rows, const T* y, std::int64_t y_stride,
                std::int64_t columns, T scale, T* to);
  /// Turns scores_ into weights, for queries from `position` on and keys from `first` on. lse: at the first query.
  void weigh(const AttentionMask& mask, std::int64_t position, std::int64_t rows, std::int64_t first,
             std::int64_t columns, const T* lse);
  /// Turns slopes_ from products of dout and values into gradients of the products of queries and keys.
  void slope(std::int64_t rows, std::int64_t columns, const T* along);
  void forward(const Tile& queries, const Side& own, int head, T* out, T* lse);
  void query_gradients(const Tile& queries, const Side& own, int head, const T* dout, const T* lse, T* to,
                       std::int64_t to_stride);
  /// In a group of one rank: adds the contributions of these queries to the gradients of keys and values.
  /// query_gradients() has left the weights in scores_ and the slopes in slopes_.
  void add_key_value_gradients(const Tile& queries, const Projections<const T>& in, int head, const T* dout,
                               const Projections<T>& to);
  void key_value_gradients(const Tile& keys, const Projections<const T>& in, int head, const Projections<T>& to);

  CallGroup group_;
  Blas* blas_;
  AttentionHeads heads_;
  SequenceCut cut_;
  std::int64_t sequences_, own_ = 0;  // own_: this rank's positions of a sequence
  int ranks_;
  T scale_;
  Side keys_, values_, queries_, douts_, lses_, alongs_;  // of whole sequences
  std::vector<T> sent_room_, got_room_;
  std::vector<T> keys_room_, values_room_, queries_room_, douts_room_, lses_room_, alongs_room_;
  std::vector<T> scores_, slopes_, along_;
  std::int64_t pairs_ = 0;
  std::size_t sent_ = 0;
};

extern template class InvariantAttention<float>;
extern template class InvariantAttention<double>;

}  // namespace sinew::parallel
