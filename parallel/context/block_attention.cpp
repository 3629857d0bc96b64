#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/context/block_attention.hpp>

namespace sinew::parallel {

void require_heads(const AttentionHeads& h) {
  constexpr int kMost = 1 << 24;
  const bool counts = h.heads >= 0 && h.heads <= kMost && h.key_value_heads >= 0 && h.key_value_heads <= kMost &&
                      h.head_width >= 1 && h.head_width <= kMost && h.each >= 0 && h.first >= 0 && h.first <= kMost;
  const bool even = counts && (h.heads == 0 || (h.key_value_heads > 0 && h.heads % h.key_value_heads == 0));
  const bool fits =
      h.each == 0 ? even && h.first == 0 : counts && (h.heads == 0 || h.key_value_of(h.heads - 1) < h.key_value_heads);
  if (!fits)
    throw Error(Code::InvalidArgument,
                fmt::format("attention: {} heads, {} of keys and values, of {} elements: expected a multiple of these, "
                            "of 1 or more elements",
                            h.heads, h.key_value_heads, h.head_width));
}

template <class T>
BlockAttention<T>::BlockAttention(Blas& blas, const AttentionHeads& heads)
    : blas_(&blas),
      device_(blas.device()),
      math_(layer_math<T>(device_)),
      heads_(heads),
      scale_(1 / std::sqrt(static_cast<T>(heads.head_width))),
      tile_(device_.exists() ? kDeviceTile : kHostTile) {
  require_heads(heads);
  std::int64_t at_once = 1;
  for_each_run([&](const HeadRun& run) { at_once = std::max<std::int64_t>(at_once, run.count); });
  for (PlacedArray<T>* of : {&scores_, &slopes_})
    *of = PlacedArray<T>(device_, static_cast<std::size_t>(at_once * tile_ * tile_));
}

/// On the host each head is a run of its own: its tile is still in the cache when the next product needs it.
template <class T>
template <class F>
void BlockAttention<T>::for_each_run(const F& f) const {
  for (int head = 0; head < heads_.heads;) {
    HeadRun run{.first = head};
    const auto key_value = [&](int of) { return heads_.key_value_of(of); };
    if (device_.exists() && head + 1 < heads_.heads) {
      run.shares = key_value(head + 1) == key_value(head);
      const int step = run.shares ? 0 : 1;
      while (head + run.count < heads_.heads && key_value(head + run.count) == key_value(head + run.count - 1) + step)
        ++run.count;
    }
    f(run);
    head += run.count;
  }
}

template <class T>
template <class F>
void BlockAttention<T>::for_each_tile(const AttentionMask& mask, const Tokens<const T>& queries,
                                      const Tokens<const T>& keys, const F& f) {
  for (std::int64_t q = 0; q < queries.count; q += tile_) {
    const std::int64_t rows = std::min(tile_, queries.count - q);
    // The first key that a query sees ascends with the query's position, and so does the last one.
    const std::int64_t from = mask.seen(queries.first + q).first, to = mask.seen(queries.first + q + rows - 1).last;
    for (std::int64_t k = 0; k < keys.count; k += tile_) {
      const std::int64_t columns = std::min(tile_, keys.count - k), first = keys.first + k;
      if (first >= to || first + columns <= from) continue;
      f(q, rows, k, columns);
      pairs_ += rows * columns;
    }
  }
}

template <class T>
kernels::AttentionTile BlockAttention<T>::tile_of(const AttentionMask& mask, const Tokens<const T>& queries,
                                                  const Tokens<const T>& keys, const HeadRun& run) const {
  return {.heads = run.count,
          .queries = queries.count,
          .keys = keys.count,
          .first_query = queries.first,
          .first_key = keys.first,
          .all_heads = heads_.heads,
          .head_width = heads_.head_width,
          .row_width = heads_.width(),
          .causal = mask.causal(),
          .starts = starts_,
          .documents = std::ssize(mask.starts())};
}

template <class T>
void BlockAttention<T>::score(const Tokens<const T>& queries, const Tokens<const T>& keys, const HeadRun& run) {
  const int m = as_int(queries.count), n = as_int(keys.count), w = heads_.head_width;
  blas_->multiply_all(
      {.b_transposed = true, .m = m, .n = n, .k = w, .la = as_int(queries.stride), .lb = as_int(keys.stride), .lc = n},
      {run.count, w, key_value_distance(run), std::int64_t{m} * n}, scale_, queries.data + std::int64_t{run.first} * w,
      keys.data + first_key_value(run), T{0}, scores_.data());
}

template <class T>
void BlockAttention<T>::forward(const AttentionMask& mask, const Tokens<const T>& queries, const Tokens<const T>& keys,
                                const Tokens<const T>& values, T* out, T* lse) {
  starts_ = mask_starts_.of(device_, mask.starts());
  const int w = heads_.head_width, width = as_int(heads_.width());
  for_each_tile(mask, queries, keys, [&](std::int64_t q, std::int64_t rows, std::int64_t k, std::int64_t columns) {
    const Tokens<const T> some = queries.part(q, rows), seen = keys.part(k, columns);
    const int m = as_int(rows), n = as_int(columns);
    for_each_run([&](const HeadRun& run) {
      T* const to = out + q * width + std::int64_t{run.first} * w;
      score(some, seen, run);
      math_->attention_merge(tile_of(mask, some, seen, run), scores_.data(), to, lse + q * heads_.heads + run.first);
      blas_->multiply_all({.m = m, .n = w, .k = n, .la = n, .lb = as_int(values.stride), .lc = width},
                          {run.count, std::int64_t{m} * n, key_value_distance(run), w}, T{1}, scores_.data(),
                          values.data + k * values.stride + first_key_value(run), T{1}, to);
    });
  });
}

/// Heads that share keys add to the same rows, so they are multiplied one after the other.
template <class T>
void BlockAttention<T>::add_to_keys(T alpha, const T* of_tile, const Tokens<const T>& rows, const Tokens<T>& to,
                                    const HeadRun& run) {
  const int m = as_int(rows.count), n = as_int(to.count), w = heads_.head_width;
  const std::int64_t elements = rows.count * to.count;
  const Product product{
      .a_transposed = true, .m = n, .n = w, .k = m, .la = n, .lb = as_int(rows.stride), .lc = as_int(to.stride)};
  if (!run.shares)
    return blas_->multiply_all(product, {run.count, elements, w, w}, alpha, of_tile, rows.data, T{1}, to.data);
  for (std::int64_t h = 0; h < run.count; ++h)
    blas_->multiply(product, alpha, of_tile + h * elements, rows.data + h * w, T{1}, to.data);
}

template <class T>
void BlockAttention<T>::backward(const AttentionMask& mask, const Tokens<const T>& queries, const Tokens<const T>& keys,
                                 const Tokens<const T>& values, const T* dout, const T* lse, const T* along,
                                 const Tokens<T>& dqueries, const Tokens<T>& dkeys, const Tokens<T>& dvalues) {
  starts_ = mask_starts_.of(device_, mask.starts());
  const int w = heads_.head_width, width = as_int(heads_.width());
  for_each_tile(mask, queries, keys, [&](std::int64_t q, std::int64_t rows, std::int64_t k, std::int64_t columns) {
    const int m = as_int(rows), n = as_int(columns);
    for_each_run([&](const HeadRun& run) {
      const std::int64_t first = std::int64_t{run.first} * w, shared = first_key_value(run);
      const std::int64_t number = q * heads_.heads + run.first, elements = rows * columns,
                         apart = key_value_distance(run);
      const auto of_heads = [&](const auto& tokens, std::int64_t at, std::int64_t count, std::int64_t element) {
        auto part = tokens.part(at, count);
        part.data += element;
        return part;
      };
      const Tokens<const T> some = of_heads(queries, q, rows, first), seen = of_heads(keys, k, columns, shared);
      const Tokens<const T> of_out{dout + q * width + first, rows, width, queries.first + q};
      const kernels::AttentionTile tile = tile_of(mask, some, seen, run);
      score(queries.part(q, rows), keys.part(k, columns), run);
      math_->attention_weights(tile, scores_.data(), lse + number);
      add_to_keys(T{1}, scores_.data(), of_out, of_heads(dvalues, k, columns, shared), run);
      blas_->multiply_all(
          {.b_transposed = true, .m = m, .n = n, .k = w, .la = width, .lb = as_int(values.stride), .lc = n},
          {run.count, w, apart, elements}, T{1}, of_out.data, values.data + k * values.stride + shared, T{0},
          slopes_.data());
      math_->attention_slopes(tile, scores_.data(), slopes_.data(), along + number);
      blas_->multiply_all({.m = m, .n = w, .k = n, .la = n, .lb = as_int(keys.stride), .lc = as_int(dqueries.stride)},
                          {run.count, elements, apart, w}, scale_, slopes_.data(), seen.data, T{1},
                          dqueries.data + q * dqueries.stride + first);
      add_to_keys(scale_, slopes_.data(), some, of_heads(dkeys, k, columns, shared), run);
    });
  });
}

template class BlockAttention<float>;
template class BlockAttention<double>;

}  // namespace sinew::parallel
