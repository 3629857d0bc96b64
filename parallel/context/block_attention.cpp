#include <algorithm>
#include <cmath>
#include <limits>

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
      heads_(heads),
      scale_(1 / std::sqrt(static_cast<T>(heads.head_width))),
      scores_(kTile * kTile),
      slopes_(kTile * kTile) {
  require_heads(heads);
}

template <class T>
template <class F>
void BlockAttention<T>::for_each_tile(const AttentionMask& mask, const Tokens<const T>& queries,
                                      const Tokens<const T>& keys, const F& f) {
  for (std::int64_t q = 0; q < queries.count; q += kTile) {
    const std::int64_t rows = std::min(kTile, queries.count - q);
    // The first key that a query sees ascends with the query's position, and so does the last one.
    const std::int64_t from = mask.seen(queries.first + q).first, to = mask.seen(queries.first + q + rows - 1).last;
    for (std::int64_t k = 0; k < keys.count; k += kTile) {
      const std::int64_t columns = std::min(kTile, keys.count - k), first = keys.first + k;
      if (first >= to || first + columns <= from) continue;
      seen_.clear();
      for (std::int64_t i = 0; i < rows; ++i) {
        const Rows all = mask.seen(queries.first + q + i);
        seen_.push_back({std::clamp<std::int64_t>(all.first - first, 0, columns),
                         std::clamp<std::int64_t>(all.last - first, 0, columns)});
      }
      f(q, rows, k, columns);
    }
  }
}

template <class T>
void BlockAttention<T>::score(const Tokens<const T>& queries, const Tokens<const T>& keys, int head) {
  constexpr T kHidden = -std::numeric_limits<T>::infinity();
  const int m = as_int(queries.count), n = as_int(keys.count);
  blas_->multiply({.b_transposed = true,
                   .m = m,
                   .n = n,
                   .k = heads_.head_width,
                   .la = as_int(queries.stride),
                   .lb = as_int(keys.stride),
                   .lc = n},
                  scale_, of_head(queries, head), of_head(keys, heads_.key_value_of(head)), T{0}, scores_.data());
  for (std::int64_t i = 0; i < m; ++i) {
    const Rows& seen = seen_[static_cast<std::size_t>(i)];
    T* row = scores_.data() + i * n;
    std::fill(row, row + seen.first, kHidden);
    std::fill(row + std::max(seen.first, seen.last), row + n, kHidden);
  }
}

template <class T>
void BlockAttention<T>::merge(const Tokens<const T>& queries, const Tokens<const T>& values, int head, T* out, T* lse) {
  const std::int64_t n = values.count, width = heads_.width();
  for (std::int64_t i = 0; i < queries.count; ++i) {
    T* row = scores_.data() + i * n;
    T& sum = lse[i * heads_.heads + head];
    T* to = out + i * width + std::int64_t{head} * heads_.head_width;
    T most = sum;
    bool is_number = !std::isnan(sum);
    for (std::int64_t j = 0; j < n; ++j) {
      most = std::max(most, row[j]);
      is_number = is_number && !std::isnan(row[j]);
    }
    if (!is_number) most = std::numeric_limits<T>::quiet_NaN();
    if (most == -std::numeric_limits<T>::infinity()) {  // it sees none of these, and has seen none before
      std::fill_n(row, n, T{0});
      continue;
    }
    const T before = std::exp(sum - most);
    T total = before;
    for (std::int64_t j = 0; j < n; ++j) {
      row[j] = std::exp(row[j] - most);
      total += row[j];
    }
    for (std::int64_t j = 0; j < n; ++j) row[j] /= total;
    for (int d = 0; d < heads_.head_width; ++d) to[d] *= before / total;
    sum = most + std::log(total);
  }
  blas_->multiply({.m = as_int(queries.count),
                   .n = heads_.head_width,
                   .k = as_int(n),
                   .la = as_int(n),
                   .lb = as_int(values.stride),
                   .lc = as_int(width)},
                  T{1}, scores_.data(), of_head(values, heads_.key_value_of(head)), T{1},
                  out + std::int64_t{head} * heads_.head_width);
}

template <class T>
void BlockAttention<T>::forward(const AttentionMask& mask, const Tokens<const T>& queries, const Tokens<const T>& keys,
                                const Tokens<const T>& values, T* out, T* lse) {
  for_each_tile(mask, queries, keys, [&](std::int64_t q, std::int64_t rows, std::int64_t k, std::int64_t columns) {
    const Tokens<const T> some = queries.part(q, rows), seen = keys.part(k, columns);
    for (int head = 0; head < heads_.heads; ++head) {
      score(some, seen, head);
      merge(some, values.part(k, columns), head, out + q * heads_.width(), lse + q * heads_.heads);
    }
    pairs_ += rows * columns;
  });
}

template <class T>
void BlockAttention<T>::weigh(std::int64_t rows, std::int64_t columns, const T* lse) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const T all = lse[i * heads_.heads];
    T* row = scores_.data() + i * columns;
    const bool sees = all != -std::numeric_limits<T>::infinity();
    for (std::int64_t j = 0; j < columns; ++j) row[j] = sees ? std::exp(row[j] - all) : T{0};
  }
}

template <class T>
void BlockAttention<T>::slope(std::int64_t rows, std::int64_t columns, const T* along) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const T mean = along[i * heads_.heads];
    for (std::int64_t j = i * columns; j < (i + 1) * columns; ++j) {
      T& slope = slopes_[static_cast<std::size_t>(j)];
      const T weight = scores_[static_cast<std::size_t>(j)];
      slope = weight == T{0} ? T{0} : weight * (slope - mean);  // what the mask hides has none
    }
  }
}

template <class T>
void BlockAttention<T>::backward(const AttentionMask& mask, const Tokens<const T>& queries, const Tokens<const T>& keys,
                                 const Tokens<const T>& values, const T* dout, const T* lse, const T* along,
                                 const Tokens<T>& dqueries, const Tokens<T>& dkeys, const Tokens<T>& dvalues) {
  const int w = heads_.head_width, width = as_int(heads_.width());
  const int lq = as_int(queries.stride), lk = as_int(keys.stride), lv = as_int(values.stride);
  for_each_tile(mask, queries, keys, [&](std::int64_t q, std::int64_t rows, std::int64_t k, std::int64_t columns) {
    const Tokens<const T> some = queries.part(q, rows), seen = keys.part(k, columns);
    const int m = as_int(rows), n = as_int(columns);
    for (int head = 0; head < heads_.heads; ++head) {
      const T* of_out = dout + q * width + std::int64_t{head} * w;
      const std::int64_t shared = std::int64_t{heads_.key_value_of(head)} * w, number = q * heads_.heads + head;
      score(some, seen, head);
      weigh(rows, columns, lse + number);
      blas_->multiply(
          {.a_transposed = true, .m = n, .n = w, .k = m, .la = n, .lb = width, .lc = as_int(dvalues.stride)}, T{1},
          scores_.data(), of_out, T{1}, dvalues.data + k * dvalues.stride + shared);
      blas_->multiply({.b_transposed = true, .m = m, .n = n, .k = w, .la = width, .lb = lv, .lc = n}, T{1}, of_out,
                      values.data + k * values.stride + shared, T{0}, slopes_.data());
      slope(rows, columns, along + number);
      blas_->multiply({.m = m, .n = w, .k = n, .la = n, .lb = lk, .lc = as_int(dqueries.stride)}, scale_,
                      slopes_.data(), seen.data + shared, T{1},
                      dqueries.data + q * dqueries.stride + std::int64_t{head} * w);
      blas_->multiply({.a_transposed = true, .m = n, .n = w, .k = m, .la = n, .lb = lq, .lc = as_int(dkeys.stride)},
                      scale_, slopes_.data(), of_head(some, head), T{1}, dkeys.data + k * dkeys.stride + shared);
    }
    pairs_ += rows * columns;
  });
}

template class BlockAttention<float>;
template class BlockAttention<double>;

}  // namespace sinew::parallel
