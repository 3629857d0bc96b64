#pragma once

#include <cstdint>
#include <memory>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/compute/blas.hpp>
#include <sinew/parallel/compute/layer_math.hpp>
#include <sinew/parallel/compute/placed_array.hpp>
#include <sinew/parallel/context/attention_mask.hpp>

namespace sinew::parallel {

/// The heads of one attention layer on this rank. `each` query heads share one head of keys and values.
struct AttentionHeads {
  int heads = 1, key_value_heads = 1, head_width = 1;
  int each = 0;   ///< 0: heads / key_value_heads
  int first = 0;  ///< query heads that share the first key-value head and are not on this rank

  std::int64_t width() const noexcept { return std::int64_t{heads} * head_width; }
  std::int64_t key_value_width() const noexcept { return std::int64_t{key_value_heads} * head_width; }
  /// The key-value head of a query head.
  int key_value_of(int head) const noexcept { return (first + head) / (each != 0 ? each : heads / key_value_heads); }
};

/// Errors: InvalidArgument for query heads that do not fit the key-value heads. Both may be 0.
SINEW_API void require_heads(const AttentionHeads& heads);

/// Tokens that follow each other.
/// Shape: [count, ...], with `stride` elements from one token to the next.
template <class T>
struct Tokens {
  T* data = nullptr;
  std::int64_t count = 0, stride = 0;
  std::int64_t first = 0;  ///< the global position of the first token

  Tokens part(std::int64_t at, std::int64_t of) const noexcept { return {data + at * stride, of, stride, first + at}; }
};

/// Attention of some queries over some keys and values, tile by tile. It needs the same memory for all lengths. Tiles
/// that the mask hides completely are not computed.
/// T is f32 or f64. Values that are not numbers stay so, unless the mask hides them.
/// Source: Dao et al., FlashAttention (arXiv 2205.14135), for tiles, and for what is kept: one number for each query
///         and head.
template <class T>
class SINEW_API BlockAttention {
 public:
  /// Lifetime: blas outlives it.
  /// Errors:   as require_heads.
  BlockAttention(Blas& blas, const AttentionHeads& heads);

  /// Adds these keys and values to the result of earlier calls with other keys and values.
  /// Shape: out [count, heads * head_width], with its width as stride; lse, the log of the sum of exponentials, [count,
  ///        heads]. Before the first call out is 0 and lse is -infinity. A query that sees nothing keeps these values.
  void forward(const AttentionMask& mask, const Tokens<const T>& queries, const Tokens<const T>& keys,
               const Tokens<const T>& values, T* out, T* lse);
  /// Adds the contributions of these pairs to the gradients. lse: over all keys. along: the sum of dout * out for each
  /// query and head, shaped as lse. dout is shaped as out.
  void backward(const AttentionMask& mask, const Tokens<const T>& queries, const Tokens<const T>& keys,
                const Tokens<const T>& values, const T* dout, const T* lse, const T* along, const Tokens<T>& dqueries,
                const Tokens<T>& dkeys, const Tokens<T>& dvalues);

  /// Pairs of a query and a key in all tiles computed so far, for one head.
  std::int64_t computed_pairs() const noexcept { return pairs_; }
  const AttentionHeads& heads() const noexcept { return heads_; }

 private:
  /// The queries and the keys of a tile. A tile of the host stays in the cache. Products on a device are large.
  static constexpr std::int64_t kHostTile = 64, kDeviceTile = 512;

  /// f(query offset, queries, key offset, keys) of each tile that has something to see.
  template <class F>
  void for_each_tile(const AttentionMask& mask, const Tokens<const T>& queries, const Tokens<const T>& keys,
                     const F& f);
  /// Heads whose products are made at once. They have one key-value head in common, or one each.
  struct HeadRun {
    int first = 0, count = 1;
    bool shares = false;
  };
  template <class F>
  void for_each_run(const F& f) const;
  kernels::AttentionTile tile_of(const AttentionMask& mask, const Tokens<const T>& queries, const Tokens<const T>& keys,
                                 const HeadRun& run) const;
  /// Scaled products of a tile.
  void score(const Tokens<const T>& queries, const Tokens<const T>& keys, const HeadRun& run);
  /// Adds the product of a tile's array, transposed, and rows of queries to rows of keys. Both begin with the first
  /// head of the run.
  void add_to_keys(T alpha, const T* of_tile, const Tokens<const T>& rows, const Tokens<T>& to, const HeadRun& run);
  std::int64_t key_value_distance(const HeadRun& run) const noexcept { return run.shares ? 0 : heads_.head_width; }
  std::int64_t first_key_value(const HeadRun& run) const noexcept {
    return std::int64_t{heads_.key_value_of(run.first)} * heads_.head_width;
  }

  Blas* blas_;
  ComputeDevice device_;
  std::shared_ptr<const LayerMath<T>> math_;
  AttentionHeads heads_;
  T scale_;
  std::int64_t tile_;
  PlacedArray<T> scores_, slopes_;  // of a tile
  PlacedCopy<std::int64_t> mask_starts_;
  const std::int64_t* starts_ = nullptr;  // of the present mask
  std::int64_t pairs_ = 0;
};

extern template class BlockAttention<float>;
extern template class BlockAttention<double>;

}  // namespace sinew::parallel
