#pragma once

#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/blas.hpp>
#include <sinew/parallel/context/attention_mask.hpp>

namespace sinew::parallel {

/// Heads of one attention layer on this rank. `each` query heads share one of keys and values.
struct AttentionHeads {
  int heads = 1, key_value_heads = 1, head_width = 1;
  int each = 0;   ///< 0: heads / key_value_heads
  int first = 0;  ///< query heads that share the first one of keys and values, and are not here

  std::int64_t width() const noexcept { return std::int64_t{heads} * head_width; }
  std::int64_t key_value_width() const noexcept { return std::int64_t{key_value_heads} * head_width; }
  /// That a query head looks at.
  int key_value_of(int head) const noexcept { return (first + head) / (each != 0 ? each : heads / key_value_heads); }
};

/// Errors: InvalidArgument for heads that do not fit those of keys and values; both may be none.
SINEW_API void require_heads(const AttentionHeads& heads);

/// Some tokens that follow each other. Shape: [count, ...], `stride` elements from one token to the next.
template <class T>
struct Tokens {
  T* data = nullptr;
  std::int64_t count = 0, stride = 0;
  std::int64_t first = 0;  ///< global position of the first one

  Tokens part(std::int64_t at, std::int64_t of) const noexcept { return {data + at * stride, of, stride, first + at}; }
};

/// Attention of some queries over some keys and values, tile by tile: whatever the lengths it takes the same room.
/// Tiles that the mask hides altogether are not computed.
/// In T: f32, f64. Values that are not numbers stay so, unless the mask hides them.
/// Source: Dao et al., FlashAttention (arXiv 2205.14135), for tiles and for what is kept: a number per query and head.
template <class T>
class SINEW_API BlockAttention {
 public:
  /// Lifetime: blas outlives it. Errors: as require_heads.
  BlockAttention(Blas& blas, const AttentionHeads& heads);

  /// Takes these keys and values into what earlier calls have made of others.
  /// Shape: out [count, heads * head_width], stride its width; lse, log of the sum of exponentials, [count, heads].
  ///        Before the first call out is 0 and lse -infinity: so they stay for a query that sees nothing.
  void forward(const AttentionMask& mask, const Tokens<const T>& queries, const Tokens<const T>& keys,
               const Tokens<const T>& values, T* out, T* lse);
  /// Adds what these pairs give to the gradients. lse: of all keys. along: sum of dout * out by query and head, as
  /// lse. dout as `out`.
  void backward(const AttentionMask& mask, const Tokens<const T>& queries, const Tokens<const T>& keys,
                const Tokens<const T>& values, const T* dout, const T* lse, const T* along, const Tokens<T>& dqueries,
                const Tokens<T>& dkeys, const Tokens<T>& dvalues);

  /// Pairs of a query and a key of all tiles computed so far, of one head.
  std::int64_t computed_pairs() const noexcept { return pairs_; }
  const AttentionHeads& heads() const noexcept { return heads_; }

 private:
  static constexpr std::int64_t kTile = 64;

  /// f(query offset, queries, key offset, keys) of each tile that has something to see.
  template <class F>
  void for_each_tile(const AttentionMask& mask, const Tokens<const T>& queries, const Tokens<const T>& keys,
                     const F& f);
  /// Scaled products of a tile, -infinity where the mask hides.
  void score(const Tokens<const T>& queries, const Tokens<const T>& keys, int head);
  void merge(const Tokens<const T>& queries, const Tokens<const T>& values, int head, T* out, T* lse);
  /// Scores become weights; slopes_, products of dout and values, become those of the scores.
  void weigh(std::int64_t rows, std::int64_t columns, const T* lse);
  void slope(std::int64_t rows, std::int64_t columns, const T* along);
  const T* of_head(const Tokens<const T>& tokens, int head) const noexcept {
    return tokens.data + head * heads_.head_width;
  }

  Blas* blas_;
  AttentionHeads heads_;
  T scale_;
  std::vector<T> scores_, slopes_;  // of a tile
  std::vector<Rows> seen_;          // by its queries, from its first key on
  std::int64_t pairs_ = 0;
};

extern template class BlockAttention<float>;
extern template class BlockAttention<double>;

}  // namespace sinew::parallel
