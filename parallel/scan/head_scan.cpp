#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/scan/decays.hpp>
#include <sinew/parallel/scan/head_scan.hpp>

namespace sinew::parallel {
namespace {

HeadScanSizes checked_heads(const HeadScanSizes& of, std::int64_t tokens, std::int64_t chunk) {
  if (std::min({of.sequences, of.heads, of.head_width, of.states, of.groups, of.heads_each, chunk}) < 1 || tokens < 0)
    throw Error(Code::InvalidArgument,
                fmt::format("head scan: {} sequences of {} tokens in chunks of {}, {} heads of {} elements with {} "
                            "states, {} groups of {} heads: expected 0 or more tokens, and 1 or more of everything "
                            "else",
                            of.sequences, tokens, chunk, of.heads, of.head_width, of.states, of.groups, of.heads_each));
  const std::int64_t last = of.heads_before + of.heads;
  if (of.heads_before < 0 || of.heads_before >= of.heads_each || last > of.groups * of.heads_each ||
      last <= (of.groups - 1) * of.heads_each)
    throw Error(
        Code::InvalidArgument,
        fmt::format("head scan: heads {} to {} of {} groups of {} heads, expected heads of the first and of the "
                    "last group",
                    of.heads_before, last - 1, of.groups, of.heads_each));
  return of;
}

template <class T>
T dot_of(const T* a, const T* b, std::int64_t n) {
  T sum{0};
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

/// exp of each number, as decays() computes it. from and to are disjoint.
template <class T>
void exponentials_of(const T* from, std::int64_t n, T* to) {
  const T one{1};
  decays(&one, from, 1, n, to);
}

/// Row t of `to` is row t of `from` times factor(t).
template <class T, class F>
void scale_rows(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t width, const F& factor, T* to) {
  for (std::int64_t t = 0; t < rows; ++t) {
    const T by = factor(t);
    for (std::int64_t i = 0; i < width; ++i) to[t * width + i] = by * from[t * stride + i];
  }
}

}  // namespace

template <class T>
typename HeadScan<T>::Room HeadScan<T>::divide(T* room, const HeadScanSizes& sizes, std::int64_t tokens,
                                               std::int64_t chunk, std::int64_t* elements) {
  const std::int64_t length = std::min(chunk, tokens), chunks = (tokens + chunk - 1) / chunk;
  const std::int64_t of_group = std::min(sizes.heads, sizes.heads_each) * sizes.head_state();
  std::int64_t taken = 0;
  const auto take = [&](std::int64_t count) {
    const std::int64_t at = std::exchange(taken, taken + count);
    return room == nullptr ? nullptr : room + at;
  };
  Room of{};
  for (T** square : {&of.products, &of.decays, &of.weights, &of.pairs, &of.shared}) *square = take(length * length);
  of.scaled = take(length * std::max(sizes.head_width, sizes.states));
  for (T** rows : {&of.inside, &of.from_behind, &of.from_before}) *rows = take(length * sizes.head_width);
  for (T** row : {&of.dt, &of.logs, &of.through, &of.after, &of.slopes, &of.diffs}) *row = take(length);
  of.starts = take(chunks * of_group);
  of.now = take(of_group);
  *elements = taken;
  return of;
}

template <class T>
std::int64_t HeadScan<T>::room_for(const HeadScanSizes& sizes, std::int64_t tokens, std::int64_t chunk) noexcept {
  std::int64_t elements = 0;
  divide(nullptr, sizes, tokens, chunk, &elements);
  return elements;
}

template <class T>
HeadScan<T>::HeadScan(Blas& blas, const HeadScanSizes& sizes, std::int64_t tokens, std::int64_t chunk)
    : blas_(&blas),
      sizes_(checked_heads(sizes, tokens, chunk)),
      tokens_(tokens),
      chunk_(chunk),
      room_(static_cast<std::size_t>(room_for(sizes, tokens, chunk))) {
  std::int64_t elements = 0;
  at_ = divide(room_.data(), sizes, tokens, chunk, &elements);
}

template <class T>
Rows HeadScan<T>::heads_of(std::int64_t group) const noexcept {
  const std::int64_t first = group * sizes_.heads_each - sizes_.heads_before;
  return {std::max<std::int64_t>(first, 0), std::min(first + sizes_.heads_each, sizes_.heads)};
}

template <class T>
template <class F>
void HeadScan<T>::for_each_chunk(std::int64_t sequence, const Rows& run, const F& f) const {
  for (std::int64_t t = run.first; t < run.last; t += chunk_)
    f(Rows{sequence * tokens_ + t, sequence * tokens_ + std::min(t + chunk_, run.last)});
}

template <class T>
template <class F>
void HeadScan<T>::for_each_chunk_back(std::int64_t sequence, const Rows& run, const F& f) const {
  for (std::int64_t number = (run.count() + chunk_ - 1) / chunk_ - 1; number >= 0; --number) {
    const std::int64_t t = run.first + number * chunk_;
    f(number, Rows{sequence * tokens_ + t, sequence * tokens_ + std::min(t + chunk_, run.last)});
  }
}

template <class T>
void HeadScan<T>::load(const T* of, std::int64_t sequence, const Rows& heads, T* to) const {
  const std::int64_t each = sizes_.head_state();
  if (of == nullptr) {
    std::fill_n(to, heads.count() * each, T{0});
  } else {
    std::copy_n(of + (sequence * sizes_.heads + heads.first) * each, heads.count() * each, to);
  }
}

template <class T>
void HeadScan<T>::store(const T* from, std::int64_t sequence, const Rows& heads, T* to) const {
  const std::int64_t each = sizes_.head_state();
  if (to != nullptr) std::copy_n(from, heads.count() * each, to + (sequence * sizes_.heads + heads.first) * each);
}

template <class T>
void HeadScan<T>::sum_dt(const HeadScanInputs<T>& in, const Rows& run, T* to) const {
  for (std::int64_t s = 0; s < sizes_.sequences; ++s)
    sum_rows(in.dt + (s * tokens_ + run.first) * sizes_.heads, run.count(), sizes_.heads, sizes_.heads, T{0},
             to + s * sizes_.heads);
}

template <class T>
void HeadScan<T>::find_products(const HeadScanInputs<T>& in, const Rows& chunk, std::int64_t group) {
  const int n = as_int(chunk.count()), row = as_int(group_row(in));
  const std::int64_t at = chunk.first * row + group * sizes_.states;
  blas_->multiply({.b_transposed = true, .m = n, .n = n, .k = as_int(sizes_.states), .la = row, .lb = row, .lc = n},
                  T{1}, in.c + at, in.b + at, T{0}, at_.products);
}

template <class T>
void HeadScan<T>::find_decays(const HeadScanInputs<T>& in, const Rows& chunk, std::int64_t head) {
  const std::int64_t n = chunk.count();
  T sum{0};
  for (std::int64_t t = 0; t < n; ++t) {
    at_.dt[t] = in.dt[(chunk.first + t) * sizes_.heads + head];
    sum += at_.dt[t] * in.a[head];
    at_.logs[t] = sum;
  }
  for (std::int64_t t = 0; t < n; ++t) at_.diffs[t] = sum - at_.logs[t];
  exponentials_of(at_.logs, n, at_.through);
  exponentials_of(at_.diffs, n, at_.after);
}

template <class T>
void HeadScan<T>::find_weights(const Rows& chunk) {
  const std::int64_t n = chunk.count();
  for (std::int64_t t = 0; t < n; ++t) {
    T *const decay = at_.decays + t * n, *const weight = at_.weights + t * n;
    for (std::int64_t s = 0; s <= t; ++s) at_.diffs[s] = at_.logs[t] - at_.logs[s];
    exponentials_of(at_.diffs, t + 1, decay);
    for (std::int64_t s = 0; s <= t; ++s) weight[s] = decay[s] * at_.products[t * n + s];
    std::fill(decay + t + 1, decay + n, T{0});
    std::fill(weight + t + 1, weight + n, T{0});
  }
}

template <class T>
void HeadScan<T>::emit(const HeadScanInputs<T>& in, const Rows& chunk, std::int64_t head, const T* state, T* y) {
  const std::int64_t n = chunk.count(), p = sizes_.head_width, states = sizes_.states, width = sizes_.width();
  const int rows = as_int(n), wide = as_int(p), row = as_int(x_row(in));
  const T* const x = in.x + chunk.first * row + head * p;
  const T* const c = in.c + chunk.first * group_row(in) + group_of(head) * states;
  T* const to = y + chunk.first * width + head * p;
  for (std::int64_t t = 0; t < n; ++t) {
    for (std::int64_t s = 0; s < n; ++s) at_.pairs[t * n + s] = at_.weights[t * n + s] * at_.dt[s];
  }
  blas_->multiply({.m = rows, .n = wide, .k = rows, .la = rows, .lb = row, .lc = as_int(width)}, T{1}, at_.pairs, x,
                  T{0}, to);
  scale_rows(
      c, group_row(in), n, states, [&](std::int64_t t) { return at_.through[t]; }, at_.scaled);
  const int s = as_int(states);
  blas_->multiply({.b_transposed = true, .m = rows, .n = wide, .k = s, .la = s, .lb = s, .lc = as_int(width)}, T{1},
                  at_.scaled, state, T{1}, to);
  for (std::int64_t t = 0; t < n; ++t) {
    for (std::int64_t i = 0; i < p; ++i) to[t * width + i] += in.skip[head] * x[t * row + i];
  }
}

template <class T>
void HeadScan<T>::advance(const HeadScanInputs<T>& in, const Rows& chunk, std::int64_t head, T* state) {
  const std::int64_t n = chunk.count(), p = sizes_.head_width, states = sizes_.states, row = group_row(in);
  scale_rows(
      in.x + chunk.first * x_row(in) + head * p, x_row(in), n, p,
      [&](std::int64_t t) { return at_.after[t] * at_.dt[t]; }, at_.scaled);
  const int wide = as_int(p), s = as_int(states);
  blas_->multiply({.a_transposed = true, .m = wide, .n = s, .k = as_int(n), .la = wide, .lb = as_int(row), .lc = s},
                  T{1}, at_.scaled, in.b + chunk.first * row + group_of(head) * states, at_.through[n - 1], state);
}

template <class T>
void HeadScan<T>::retreat(const HeadScanInputs<T>& in, const Rows& chunk, std::int64_t head, const T* dy, T* slope) {
  const std::int64_t n = chunk.count(), p = sizes_.head_width, states = sizes_.states, row = group_row(in);
  scale_rows(
      dy + chunk.first * sizes_.width() + head * p, sizes_.width(), n, p,
      [&](std::int64_t t) { return at_.through[t]; }, at_.scaled);
  const int wide = as_int(p), s = as_int(states);
  blas_->multiply({.a_transposed = true, .m = wide, .n = s, .k = as_int(n), .la = wide, .lb = as_int(row), .lc = s},
                  T{1}, at_.scaled, in.c + chunk.first * row + group_of(head) * states, at_.through[n - 1], slope);
}

template <class T>
void HeadScan<T>::forward(const HeadScanInputs<T>& in, const Rows& run, const T* before, T* y, T* after) {
  for (std::int64_t s = 0; s < sizes_.sequences; ++s) {
    for (std::int64_t g = 0; g < sizes_.groups; ++g) {
      const Rows heads = heads_of(g);
      load(before, s, heads, at_.now);
      for_each_chunk(s, run, [&](const Rows& chunk) {
        find_products(in, chunk, g);
        for (std::int64_t h = heads.first; h < heads.last; ++h) {
          T* const state = at_.now + (h - heads.first) * sizes_.head_state();
          find_decays(in, chunk, h);
          find_weights(chunk);
          emit(in, chunk, h, state, y);
          advance(in, chunk, h, state);
        }
      });
      store(at_.now, s, heads, after);
    }
  }
}

template <class T>
void HeadScan<T>::summary(const HeadScanInputs<T>& in, const Rows& run, T* dt_sum, T* after) {
  sum_dt(in, run, dt_sum);
  for (std::int64_t s = 0; s < sizes_.sequences; ++s) {
    for (std::int64_t h = 0; h < sizes_.heads; ++h) {
      load(nullptr, s, {h, h + 1}, at_.now);
      for_each_chunk(s, run, [&](const Rows& chunk) {
        find_decays(in, chunk, h);
        advance(in, chunk, h, at_.now);
      });
      store(at_.now, s, {h, h + 1}, after);
    }
  }
}

template <class T>
void HeadScan<T>::gradient_summary(const HeadScanInputs<T>& in, const Rows& run, const T* dy, T* dt_sum, T* dbefore) {
  sum_dt(in, run, dt_sum);
  for (std::int64_t s = 0; s < sizes_.sequences; ++s) {
    for (std::int64_t h = 0; h < sizes_.heads; ++h) {
      load(nullptr, s, {h, h + 1}, at_.now);
      for_each_chunk_back(s, run, [&](std::int64_t, const Rows& chunk) {
        find_decays(in, chunk, h);
        retreat(in, chunk, h, dy, at_.now);
      });
      store(at_.now, s, {h, h + 1}, dbefore);
    }
  }
}

template <class T>
void HeadScan<T>::backward(const HeadScanInputs<T>& in, const Rows& run, const T* before, const T* dy, const T* dafter,
                           const HeadScanGradients<T>& to, T* dbefore) {
  const std::int64_t row = group_row(in), states = sizes_.states, each = sizes_.head_state();
  for (std::int64_t s = 0; s < sizes_.sequences; ++s) {
    for (std::int64_t g = 0; g < sizes_.groups; ++g) {
      const Rows heads = heads_of(g);
      const std::int64_t of_group = heads.count() * each;
      load(before, s, heads, at_.now);
      T* start = at_.starts;
      for_each_chunk(s, run, [&](const Rows& chunk) {
        std::copy_n(at_.now, of_group, std::exchange(start, start + of_group));
        if (chunk.last == s * tokens_ + run.last) return;  // nobody needs the states after the last chunk
        for (std::int64_t h = heads.first; h < heads.last; ++h) {
          find_decays(in, chunk, h);
          advance(in, chunk, h, at_.now + (h - heads.first) * each);
        }
      });
      load(dafter, s, heads, at_.now);
      for_each_chunk_back(s, run, [&](std::int64_t number, const Rows& chunk) {
        const std::int64_t n = chunk.count(), at = chunk.first * row + g * states;
        for (T* const of : {to.b, to.c}) {
          for (std::int64_t t = 0; t < n; ++t) std::fill_n(of + at + t * row, states, T{0});
        }
        std::fill_n(at_.shared, n * n, T{0});
        find_products(in, chunk, g);
        for (std::int64_t h = heads.first; h < heads.last; ++h) {
          const std::int64_t of_head = (h - heads.first) * each;
          find_decays(in, chunk, h);
          find_weights(chunk);
          step_back(in, chunk, h, dy, at_.starts + number * of_group + of_head, at_.now + of_head, to);
          retreat(in, chunk, h, dy, at_.now + of_head);
        }
        const int rows = as_int(n), wide = as_int(states), stride = as_int(row);
        blas_->multiply({.m = rows, .n = wide, .k = rows, .la = rows, .lb = stride, .lc = stride}, T{1}, at_.shared,
                        in.b + at, T{1}, to.c + at);
        blas_->multiply({.a_transposed = true, .m = rows, .n = wide, .k = rows, .la = rows, .lb = stride, .lc = stride},
                        T{1}, at_.shared, in.c + at, T{1}, to.b + at);
      });
      store(at_.now, s, heads, dbefore);
    }
  }
}

template <class T>
void HeadScan<T>::step_back(const HeadScanInputs<T>& in, const Rows& chunk, std::int64_t head, const T* dy,
                            const T* state, const T* slope, const HeadScanGradients<T>& to) {
  const std::int64_t n = chunk.count(), p = sizes_.head_width, width = sizes_.width(), row = x_row(in);
  const std::int64_t of_group = chunk.first * group_row(in) + group_of(head) * sizes_.states;
  const int rows = as_int(n), wide = as_int(p), s = as_int(sizes_.states), group_stride = as_int(group_row(in));
  const T *const x = in.x + chunk.first * row + head * p, *const dys = dy + chunk.first * width + head * p;
  blas_->multiply(
      {.b_transposed = true, .m = rows, .n = rows, .k = wide, .la = as_int(width), .lb = as_int(row), .lc = rows}, T{1},
      dys, x, T{0}, at_.pairs);
  blas_->multiply({.a_transposed = true, .m = rows, .n = wide, .k = rows, .la = rows, .lb = as_int(width), .lc = wide},
                  T{1}, at_.weights, dys, T{0}, at_.inside);
  const Product by_state{.b_transposed = true, .m = rows, .n = wide, .k = s, .la = group_stride, .lb = s, .lc = wide};
  blas_->multiply(by_state, T{1}, in.b + of_group, slope, T{0}, at_.from_behind);
  blas_->multiply(by_state, T{1}, in.c + of_group, state, T{0}, at_.from_before);

  const Product into_group{.m = rows, .n = s, .k = wide, .la = wide, .lb = s, .lc = group_stride};
  scale_rows(
      x, row, n, p, [&](std::int64_t t) { return at_.after[t] * at_.dt[t]; }, at_.scaled);
  blas_->multiply(into_group, T{1}, at_.scaled, slope, T{1}, to.b + of_group);
  scale_rows(
      dys, width, n, p, [&](std::int64_t t) { return at_.through[t]; }, at_.scaled);
  blas_->multiply(into_group, T{1}, at_.scaled, state, T{1}, to.c + of_group);

  for (std::int64_t t = 0; t < n; ++t) {
    const std::int64_t token = chunk.first + t;
    T *const inside = at_.inside + t * p, *const dx = to.x + token * row + head * p;
    const T* const behind = at_.from_behind + t * p;
    T of_behind{0}, of_x{0};  // the products with x of what comes from behind the chunk, and of all
    for (std::int64_t i = 0; i < p; ++i) {
      const T later = at_.after[t] * behind[i], all = inside[i] + later;
      of_behind += x[t * row + i] * later;
      of_x += x[t * row + i] * all;
      dx[i] = at_.dt[t] * all + in.skip[head] * dys[t * width + i];
    }
    at_.diffs[t] = at_.dt[t] * of_behind;
    to.dt[token * sizes_.heads + head] = of_x;
    to.skip[head] += dot_of(x + t * row, dys + t * width, p);
  }
  decays_back(in, chunk, head, at_.through[n - 1] * dot_of(slope, state, sizes_.head_state()), dys, to);
}

template <class T>
void HeadScan<T>::decays_back(const HeadScanInputs<T>& in, const Rows& chunk, std::int64_t head, T through_chunk,
                              const T* dys, const HeadScanGradients<T>& to) {
  // The logarithm of token k's decay counts in each pair (s, t) of tokens with s < k <= t. It counts in what the
  // entering state gives to tokens t >= k, and in what tokens s < k give to the leaving state. All of these are added
  // up. Differences of sums up to k would lose digits.
  const std::int64_t n = chunk.count(), p = sizes_.head_width;
  std::fill_n(at_.slopes, n, through_chunk);
  for (std::int64_t t = 0; t < n; ++t) {
    T before{0};
    for (std::int64_t s = 0; s <= t; ++s) {
      const T pair = at_.pairs[t * n + s] * at_.dt[s];
      at_.shared[t * n + s] += pair * at_.decays[t * n + s];
      if (s == t) break;
      before += pair * at_.weights[t * n + s];
      at_.slopes[s + 1] += before;
    }
  }
  T entering{0}, leaving{0};
  for (std::int64_t t = n - 1; t >= 0; --t) {
    entering += at_.through[t] * dot_of(dys + t * sizes_.width(), at_.from_before + t * p, p);
    at_.slopes[t] += entering;
  }
  for (std::int64_t t = 0; t < n; ++t) {
    at_.slopes[t] += std::exchange(leaving, leaving + at_.diffs[t]);
    to.dt[(chunk.first + t) * sizes_.heads + head] += in.a[head] * at_.slopes[t];
    to.a[head] += at_.dt[t] * at_.slopes[t];
  }
}

template class HeadScan<float>;
template class HeadScan<double>;

}  // namespace sinew::parallel
