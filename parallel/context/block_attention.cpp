#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/context/block_attention.hpp>
#include <sinew/parallel/tensor/matrix.hpp>

namespace sinew::parallel {

template <class T>
BlockAttention<T>::BlockAttention(Blas& blas, const AttentionHeads& heads, bool causal)
    : blas_(&blas),
      heads_(heads),
      causal_(causal),
      scale_(1 / std::sqrt(static_cast<T>(heads.head_width))),
      scores_(kTile * kTile),
      slopes_(kTile * kTile) {
  if (heads.heads < 0 || heads.key_value_heads < 1 || heads.head_width < 1 || heads.heads % heads.key_value_heads != 0)
    throw Error(
        Code::InvalidArgument,
        fmt::format("attention: {} heads, {} of keys and values, of {} elements: expected a multiple of these, of "
                    "1 or more elements",
                    heads.heads, heads.key_value_heads, heads.head_width));
}

template <class T>
template <class F>
void BlockAttention<T>::for_each_tile(const Tokens<const T>& queries, const Tokens<const T>& keys, const F& f) {
  for (std::int64_t q = 0; q < queries.count; q += kTile) {
    const std::int64_t rows = std::min(kTile, queries.count - q);
    for (std::int64_t k = 0; k < keys.count; k += kTile) {
      if (causal_ && keys.first + k > queries.first + q + rows - 1) break;
      f(q, rows, k, std::min(kTile, keys.count - k));
    }
  }
}

template <class T>
void BlockAttention<T>::score(const Tokens<const T>& queries, const Tokens<const T>& keys, int head) {
  const int m = as_int(queries.count), n = as_int(keys.count);
  blas_->multiply({.b_transposed = true,
                   .m = m,
                   .n = n,
                   .k = heads_.head_width,
                   .la = as_int(queries.stride),
                   .lb = as_int(keys.stride),
                   .lc = n},
                  scale_, of_head(queries, head), of_head(keys, shared_head(head)), T{0}, scores_.data());
  if (!causal_ || keys.first + n - 1 <= queries.first) return;
  for (std::int64_t i = 0; i < m; ++i) {
    const std::int64_t seen = std::clamp<std::int64_t>(queries.first + i - keys.first + 1, 0, n);
    std::fill(scores_.data() + i * n + seen, scores_.data() + (i + 1) * n, -std::numeric_limits<T>::infinity());
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
                  T{1}, scores_.data(), of_head(values, shared_head(head)), T{1},
                  out + std::int64_t{head} * heads_.head_width);
}

template <class T>
void BlockAttention<T>::forward(const Tokens<const T>& queries, const Tokens<const T>& keys,
                                const Tokens<const T>& values, T* out, T* lse) {
  for_each_tile(queries, keys, [&](std::int64_t q, std::int64_t rows, std::int64_t k, std::int64_t columns) {
    const Tokens<const T> some = queries.part(q, rows), seen = keys.part(k, columns);
    for (int head = 0; head < heads_.heads; ++head) {
      score(some, seen, head);
      merge(some, values.part(k, columns), head, out + q * heads_.width(), lse + q * heads_.heads);
    }
    pairs_ += rows * columns;
  });
}

template <class T>
void BlockAttention<T>::backward(const Tokens<const T>& queries, const Tokens<const T>& keys,
                                 const Tokens<const T>& values, const T* dout, const T* lse, const T* along,
                                 T* dqueries, const Tokens<T>& dkeys, const Tokens<T>& dvalues) {
  const int w = heads_.head_width, width = as_int(heads_.width());
  for_each_tile(queries, keys, [&](std::int64_t q, std::int64_t rows, std::int64_t k, std::int64_t columns) {
    const Tokens<const T> some = queries.part(q, rows), seen = keys.part(k, columns);
    const int m = as_int(rows), n = as_int(columns);
    for (int head = 0; head < heads_.heads; ++head) {
      const std::int64_t mine = q * width + std::int64_t{head} * w;
      const std::int64_t shared = std::int64_t{shared_head(head)} * w;
      T* to_keys = dkeys.data + k * dkeys.stride + shared;
      T* to_values = dvalues.data + k * dvalues.stride + shared;
      score(some, seen, head);
      for (std::int64_t i = 0; i < rows; ++i) {
        const T all = lse[(q + i) * heads_.heads + head];
        T* row = scores_.data() + i * columns;
        const bool sees = all != -std::numeric_limits<T>::infinity();
        for (std::int64_t j = 0; j < columns; ++j) row[j] = sees ? std::exp(row[j] - all) : T{0};
      }
      blas_->multiply(
          {.a_transposed = true, .m = n, .n = w, .k = m, .la = n, .lb = width, .lc = as_int(dvalues.stride)}, T{1},
          scores_.data(), dout + mine, T{1}, to_values);
      blas_->multiply({.b_transposed = true, .m = m, .n = n, .k = w, .la = width, .lb = as_int(values.stride), .lc = n},
                      T{1}, dout + mine, values.data + k * values.stride + shared, T{0}, slopes_.data());
      for (std::int64_t i = 0; i < rows; ++i) {
        const T mean = along[(q + i) * heads_.heads + head];
        for (std::int64_t j = 0; j < columns; ++j) {
          T& slope = slopes_[static_cast<std::size_t>(i * columns + j)];
          const T weight = scores_[static_cast<std::size_t>(i * columns + j)];
          slope = weight == T{0} ? T{0} : weight * (slope - mean);  // what the mask hides has none
        }
      }
      blas_->multiply({.m = m, .n = w, .k = n, .la = n, .lb = as_int(keys.stride), .lc = width}, scale_, slopes_.data(),
                      of_head(seen, shared_head(head)), T{1}, dqueries + mine);
      blas_->multiply({.a_transposed = true,
                       .m = n,
                       .n = w,
                       .k = m,
                       .la = n,
                       .lb = as_int(queries.stride),
                       .lc = as_int(dkeys.stride)},
                      scale_, slopes_.data(), of_head(some, head), T{1}, to_keys);
    }
    pairs_ += rows * columns;
  });
}

template class BlockAttention<float>;
template class BlockAttention<double>;

}  // namespace sinew::parallel
