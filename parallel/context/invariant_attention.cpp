#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/context/invariant_attention.hpp>

namespace sinew::parallel {
namespace {

constexpr std::int64_t kTileOf = 32;

/// The lengths of the buffers of an attention, in elements.
struct Rooms {
  std::size_t along = 0, scores = 0;                                        // always needed; `scores` twice
  std::size_t sent = 0, got = 0, key_values = 0, queries = 0, numbers = 0;  // with several ranks; the last three twice

  std::size_t total() const noexcept { return along + 2 * scores + sent + got + 2 * (key_values + queries + numbers); }
};

Rooms rooms_of(const AttentionHeads& heads, const SequenceCut& cut, std::int64_t sequences) noexcept {
  const auto of = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  const std::int64_t own = sequences * cut.most_tokens(), all = sequences * cut.length();
  Rooms rooms{.along = of(own * heads.heads), .scores = of(kTileOf * std::max<std::int64_t>(cut.length(), kTileOf))};
  if (cut.ranks() == 1) return rooms;
  const std::int64_t widest = std::max({heads.width(), heads.key_value_width(), std::int64_t{heads.heads}});
  rooms.sent = of(own * widest);
  rooms.got = rooms.sent * static_cast<std::size_t>(cut.ranks());
  rooms.key_values = of(all * heads.key_value_width());
  rooms.queries = of(all * heads.width());
  rooms.numbers = of(all * heads.heads);
  return rooms;
}

}  // namespace

template <class T>
InvariantAttention<T>::InvariantAttention(CallGroup group, Blas& blas, const AttentionHeads& heads, SequenceCut cut,
                                          std::int64_t sequences)
    : group_(group),
      blas_(&blas),
      heads_(heads),
      cut_(std::move(cut)),
      sequences_(sequences),
      ranks_(GroupPlace(group).ranks),
      scale_(1 / std::sqrt(static_cast<T>(heads.head_width))) {
  require_heads(heads);
  if (cut_.ranks() != ranks_)
    throw Error(Code::InvalidArgument, fmt::format("invariant attention: a sequence cut for {} ranks, expected {}, "
                                                   "those of the group",
                                                   cut_.ranks(), ranks_));
  own_ = cut_.tokens(GroupPlace(group).rank);
  if (own_ * ranks_ != cut_.length() || own_ != cut_.most_tokens())
    throw Error(Code::InvalidArgument,
                fmt::format("invariant attention: {} positions on {} ranks, {} of them here: expected as many on each",
                            cut_.length(), ranks_, own_));
  if (sequences < 1)
    throw Error(Code::InvalidArgument, fmt::format("invariant attention: {} sequences, expected 1 or more", sequences));
  const Rooms rooms = rooms_of(heads_, cut_, sequences_);
  along_.resize(rooms.along);
  scores_.resize(rooms.scores), slopes_.resize(rooms.scores);
  sent_room_.resize(rooms.sent), got_room_.resize(rooms.got);
  keys_room_.resize(rooms.key_values), values_room_.resize(rooms.key_values);
  queries_room_.resize(rooms.queries), douts_room_.resize(rooms.queries);
  lses_room_.resize(rooms.numbers), alongs_room_.resize(rooms.numbers);
}

template <class T>
std::size_t InvariantAttention<T>::room_for(const AttentionHeads& heads, const SequenceCut& cut,
                                            std::int64_t sequences) noexcept {
  static_assert(kTile == kTileOf);
  return rooms_of(heads, cut, sequences).total();
}

template <class T>
std::size_t InvariantAttention<T>::held_bytes() const noexcept {
  return rooms_of(heads_, cut_, sequences_).total() * sizeof(T);
}

template <class T>
void InvariantAttention<T>::require(std::span<const AttentionMask> masks) const {
  if (masks.size() == 1 || std::ssize(masks) == sequences_) return;
  throw Error(Code::InvalidArgument,
              fmt::format("invariant attention: {} masks for {} sequences, expected one for all or one for each",
                          masks.size(), sequences_));
}

template <class T>
typename InvariantAttention<T>::Side InvariantAttention<T>::whole(const Side& own, std::int64_t width,
                                                                  std::vector<T>& room) {
  if (ranks_ == 1) return own;
  T* to = sent_room_.data();
  for (std::int64_t t = 0; t < tokens(); ++t, to += width) std::copy_n(own.row(t), width, to);
  const ConstBuffer mine = elements_of<T>(static_cast<const T*>(sent_room_.data()), tokens() * width);
  sent_ += mine.bytes * static_cast<std::size_t>(ranks_ - 1);
  group_
      ->all_gather(mine, elements_of(got_room_.data(), ranks_ * tokens() * width), dtype_of_layer<T>(),
                   group_.options("invariant attention"))
      .get();
  const T* from = got_room_.data();
  for (int rank = 0; rank < ranks_; ++rank) {
    const std::vector<std::int64_t> positions = cut_.positions(rank);
    for (std::int64_t s = 0; s < sequences_; ++s) {
      for (const std::int64_t p : positions) {
        std::copy_n(from, width, room.data() + (begin_of(s) + p) * width);
        from += width;
      }
    }
  }
  return {room.data(), width};
}

template <class T>
void InvariantAttention<T>::gather_keys_values(const Projections<const T>& in) {
  keys_ = whole({in.keys, in.key_value_stride}, heads_.key_value_width(), keys_room_);
  values_ = whole({in.values, in.key_value_stride}, heads_.key_value_width(), values_room_);
}

template <class T>
void InvariantAttention<T>::sum_along(const T* out, const T* dout) {
  const std::int64_t count = tokens() * heads_.heads, width = heads_.head_width;
  for (std::int64_t i = 0; i < count; ++i) {
    T sum{0};
    for (std::int64_t d = i * width; d < (i + 1) * width; ++d) sum += dout[d] * out[d];
    along_[static_cast<std::size_t>(i)] = sum;
  }
}

template <class T>
template <class F>
void InvariantAttention<T>::for_each_tile(std::span<const AttentionMask> masks, const F& f) const {
  std::int64_t own = 0;
  for (std::int64_t s = 0; s < sequences_; ++s) {
    const AttentionMask* mask = &masks[masks.size() == 1 ? 0 : static_cast<std::size_t>(s)];
    for (const Rows& piece : cut_.pieces(GroupPlace(*group_).rank)) {
      for (std::int64_t p = piece.first; p < piece.last; p += kTile) {
        const std::int64_t count = std::min(kTile, piece.last - p);
        f(Tile{s, own, p, count, mask});
        own += count;
      }
    }
  }
}

template <class T>
Rows InvariantAttention<T>::seen_by(const Tile& q) const noexcept {
  // The first key that a query sees ascends with the query's position, and so does the last one.
  const std::int64_t first = q.mask->seen(q.position).first, last = q.mask->seen(q.position + q.count - 1).last;
  return {std::clamp<std::int64_t>(first, 0, cut_.length()), std::clamp<std::int64_t>(last, 0, cut_.length())};
}

template <class T>
void InvariantAttention<T>::multiply(const T* x, std::int64_t x_stride, std::int64_t rows, const T* y,
                                     std::int64_t y_stride, std::int64_t columns, T scale, T* to) {
  blas_->multiply({.b_transposed = true,
                   .m = as_int(rows),
                   .n = as_int(columns),
                   .k = heads_.head_width,
                   .la = as_int(x_stride),
                   .lb = as_int(y_stride),
                   .lc = as_int(columns)},
                  scale, x, y, T{0}, to);
}

template <class T>
void InvariantAttention<T>::weigh(const AttentionMask& mask, std::int64_t position, std::int64_t rows,
                                  std::int64_t first, std::int64_t columns, const T* lse) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const Rows seen = mask.seen(position + i);
    const T all = lse[i * heads_.heads];
    T* row = scores_.data() + i * columns;
    for (std::int64_t j = 0; j < columns; ++j) {
      const bool sees = first + j >= seen.first && first + j < seen.last;
      row[j] = sees ? std::exp(row[j] - all) : T{0};
    }
  }
}

template <class T>
void InvariantAttention<T>::slope(std::int64_t rows, std::int64_t columns, const T* along) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const T mean = along[i * heads_.heads];
    const T* weights = scores_.data() + i * columns;
    T* slopes = slopes_.data() + i * columns;
    for (std::int64_t j = 0; j < columns; ++j)
      slopes[j] = weights[j] == T{0} ? T{0} : weights[j] * (slopes[j] - mean) * scale_;
  }
}

template <class T>
void InvariantAttention<T>::forward(const Tile& q, const Side& own, int head, T* out, T* lse) {
  const std::int64_t w = heads_.head_width, shared = heads_.key_value_of(head) * w, row_of_out = heads_.width();
  const Rows keys = seen_by(q);
  const std::int64_t n = keys.count(), first = begin_of(q.sequence) + keys.first;
  T* to = out + q.own * row_of_out + head * w;
  multiply(own.row(q.own) + head * w, own.stride, q.count, keys_.row(first) + shared, keys_.stride, n, scale_,
           scores_.data());
  for (std::int64_t i = 0; i < q.count; ++i) {
    const Rows seen = q.mask->seen(q.position + i);
    const std::int64_t from = std::clamp(seen.first - keys.first, std::int64_t{0}, n);
    const std::int64_t last = std::clamp(seen.last - keys.first, from, n);
    T* row = scores_.data() + i * n;
    T most = -std::numeric_limits<T>::infinity(), total{0};
    for (std::int64_t j = from; j < last; ++j) most = std::max(most, row[j]);
    std::fill(row, row + from, T{0});
    std::fill(row + last, row + n, T{0});
    for (std::int64_t j = from; j < last; ++j) total += row[j] = std::exp(row[j] - most);
    for (std::int64_t j = from; j < last; ++j) row[j] /= total;
    lse[(q.own + i) * heads_.heads + head] = from == last ? most : most + std::log(total);
  }
  blas_->multiply({.m = as_int(q.count),
                   .n = heads_.head_width,
                   .k = as_int(n),
                   .la = as_int(n),
                   .lb = as_int(values_.stride),
                   .lc = as_int(row_of_out)},
                  T{1}, scores_.data(), values_.row(first) + shared, T{0}, to);
}

template <class T>
void InvariantAttention<T>::forward(std::span<const AttentionMask> masks, const Projections<const T>& in, T* out,
                                    T* lse) {
  require(masks);
  gather_keys_values(in);
  for_each_tile(masks, [&](const Tile& q) {
    for (int head = 0; head < heads_.heads; ++head) forward(q, {in.queries, in.query_stride}, head, out, lse);
    pairs_ += q.count * seen_by(q).count();
  });
}

template <class T>
void InvariantAttention<T>::query_gradients(const Tile& q, const Side& own, int head, const T* dout, const T* lse,
                                            T* to, std::int64_t to_stride) {
  const std::int64_t w = heads_.head_width, shared = heads_.key_value_of(head) * w, row_of_out = heads_.width();
  const Rows keys = seen_by(q);
  const std::int64_t n = keys.count(), first = begin_of(q.sequence) + keys.first, number = q.own * heads_.heads + head;
  multiply(own.row(q.own) + head * w, own.stride, q.count, keys_.row(first) + shared, keys_.stride, n, scale_,
           scores_.data());
  weigh(*q.mask, q.position, q.count, keys.first, n, lse + number);
  multiply(dout + q.own * row_of_out + head * w, row_of_out, q.count, values_.row(first) + shared, values_.stride, n,
           T{1}, slopes_.data());
  slope(q.count, n, along_.data() + number);
  blas_->multiply({.m = as_int(q.count),
                   .n = heads_.head_width,
                   .k = as_int(n),
                   .la = as_int(n),
                   .lb = as_int(keys_.stride),
                   .lc = as_int(to_stride)},
                  T{1}, slopes_.data(), keys_.row(first) + shared, T{0}, to + q.own * to_stride + head * w);
}

template <class T>
void InvariantAttention<T>::add_key_value_gradients(const Tile& q, const Projections<const T>& in, int head,
                                                    const T* dout, const Projections<T>& to) {
  const std::int64_t w = heads_.head_width, row_of_out = heads_.width();
  const Rows keys = seen_by(q);
  const std::int64_t at = (begin_of(q.sequence) + keys.first) * to.key_value_stride + heads_.key_value_of(head) * w;
  Product sums{.a_transposed = true,
               .m = as_int(keys.count()),
               .n = heads_.head_width,
               .k = as_int(q.count),
               .la = as_int(keys.count()),
               .lb = as_int(row_of_out),
               .lc = as_int(to.key_value_stride)};
  blas_->multiply(sums, T{1}, scores_.data(), dout + q.own * row_of_out + head * w, T{1}, to.values + at);
  sums.lb = as_int(in.query_stride);
  blas_->multiply(sums, T{1}, slopes_.data(), in.queries + q.own * in.query_stride + head * w, T{1}, to.keys + at);
}

/// Adds the contributions of all queries of a head to the gradients of a tile of keys and values, from the first query
/// to the last.
template <class T>
void InvariantAttention<T>::key_value_gradients(const Tile& k, const Projections<const T>& in, int head,
                                                const Projections<T>& to) {
  const std::int64_t w = heads_.head_width, shared = heads_.key_value_of(head) * w, stride = in.key_value_stride;
  const T *keys = in.keys + k.own * stride + shared, *values = in.values + k.own * stride + shared;
  const std::int64_t at = k.own * to.key_value_stride + shared;
  for (std::int64_t q = 0; q < cut_.length(); q += kTile) {
    const std::int64_t rows = std::min(kTile, cut_.length() - q), first = begin_of(k.sequence) + q;
    if (k.mask->seen(q + rows - 1).last <= k.position || k.mask->seen(q).first >= k.position + k.count) continue;
    const Product sums{.a_transposed = true,
                       .m = as_int(k.count),
                       .n = heads_.head_width,
                       .k = as_int(rows),
                       .la = as_int(k.count),
                       .lc = as_int(to.key_value_stride)};
    multiply(queries_.row(first) + head * w, queries_.stride, rows, keys, stride, k.count, scale_, scores_.data());
    weigh(*k.mask, q, rows, k.position, k.count, lses_.row(first) + head);
    Product of_values = sums;
    of_values.lb = as_int(douts_.stride);
    blas_->multiply(of_values, T{1}, scores_.data(), douts_.row(first) + head * w, T{1}, to.values + at);
    multiply(douts_.row(first) + head * w, douts_.stride, rows, values, stride, k.count, T{1}, slopes_.data());
    slope(rows, k.count, alongs_.row(first) + head);
    Product of_keys = sums;
    of_keys.lb = as_int(queries_.stride);
    blas_->multiply(of_keys, T{1}, slopes_.data(), queries_.row(first) + head * w, T{1}, to.keys + at);
  }
}

template <class T>
void InvariantAttention<T>::backward(std::span<const AttentionMask> masks, const Projections<const T>& in, const T* out,
                                     const T* lse, const T* dout, const Projections<T>& to) {
  require(masks);
  const std::int64_t width = heads_.width(), heads = heads_.heads, shared = heads_.key_value_width();
  sum_along(out, dout);
  gather_keys_values(in);
  queries_ = whole({in.queries, in.query_stride}, width, queries_room_);
  douts_ = whole({dout, width}, width, douts_room_);
  lses_ = whole({lse, heads}, heads, lses_room_);
  alongs_ = whole({along_.data(), heads}, heads, alongs_room_);
  for_each_tile(masks, [&](const Tile& tile) {
    for (std::int64_t t = tile.own; t < tile.own + tile.count; ++t) {
      std::fill_n(to.keys + t * to.key_value_stride, shared, T{0});
      std::fill_n(to.values + t * to.key_value_stride, shared, T{0});
    }
  });
  // If query heads share a key head, both branches below must add their contributions in the same order: head by head.
  for (int head = 0; head < heads_.heads; ++head) {
    for_each_tile(masks, [&](const Tile& tile) {
      query_gradients(tile, {in.queries, in.query_stride}, head, dout, lse, to.queries, to.query_stride);
      if (ranks_ == 1) {
        add_key_value_gradients(tile, in, head, dout, to);
      } else {
        key_value_gradients(tile, in, head, to);
      }
    });
  }
}

template class InvariantAttention<float>;
template class InvariantAttention<double>;

}  // namespace sinew::parallel
