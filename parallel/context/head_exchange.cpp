#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/context/head_exchange.hpp>

namespace sinew::parallel {
namespace {

std::int64_t tokens_of(const std::vector<Rows>& pieces) noexcept {
  std::int64_t sum = 0;
  for (const Rows& piece : pieces) sum += piece.count();
  return sum;
}

std::int64_t tokens_of_all(const HeadExchangeShape& shape) noexcept {
  std::int64_t sum = 0;
  for (const auto& pieces : shape.pieces) sum += tokens_of(pieces);
  return sum;
}

/// A message of tokens: all heads that members are to have, or what they have of one member's.
std::int64_t packed_by_tokens(const HeadExchangeShape& shape, std::size_t member) noexcept {
  std::int64_t heads = 0;
  for (const Rows& of : shape.heads) heads += of.count();
  return shape.sequences * tokens_of(shape.pieces[member]) * heads * shape.head_width;
}

}  // namespace

template <class T>
HeadExchange<T>::HeadExchange(CallGroup group, HeadExchangeShape shape, const ComputeDevice& device)
    : group_(group),
      shape_(std::move(shape)),
      me_(static_cast<std::size_t>(GroupPlace(group).rank)),
      device_(device),
      math_(layer_math<T>(device)) {
  const auto ranks = static_cast<std::size_t>(GroupPlace(group).ranks);
  if (shape_.pieces.size() != ranks || shape_.heads.size() != ranks)
    throw Error(Code::InvalidArgument,
                fmt::format("exchange of heads: tokens of {} ranks and heads of {}, expected {}, those of the group",
                            shape_.pieces.size(), shape_.heads.size(), ranks));
  const bool counts = shape_.head_width >= 1 && shape_.sequences >= 1 && shape_.all_heads >= 0;
  const auto is_part = [&](const Rows& rows) { return 0 <= rows.first && rows.first <= rows.last; };
  const auto are_heads = [&](const Rows& rows) { return is_part(rows) && rows.last <= shape_.all_heads; };
  const auto are_pieces = [&](const std::vector<Rows>& pieces) { return std::ranges::all_of(pieces, is_part); };
  if (!counts || !std::ranges::all_of(shape_.heads, are_heads) || !std::ranges::all_of(shape_.pieces, are_pieces))
    throw Error(
        Code::InvalidArgument,
        fmt::format("exchange of heads: {} sequences, {} heads of {} elements: expected 1 or more sequences and "
                    "elements, and parts of these heads and of positions from 0 on",
                    shape_.sequences, shape_.all_heads, shape_.head_width));
  struct Piece {
    Rows rows;
    std::size_t member;
    std::int64_t own;
  };
  std::vector<Piece> all;
  for (std::size_t m = 0; m < ranks; ++m) {
    std::int64_t own = 0;
    for (const Rows& piece : shape_.pieces[m]) {
      all.push_back({piece, m, own});
      own += piece.count();
    }
  }
  std::ranges::sort(all, {}, [](const Piece& p) { return p.rows.first; });
  runs_.resize(ranks);
  for (const Piece& piece : all) {
    runs_[piece.member].push_back({piece.own, all_tokens_, piece.rows.count()});
    all_tokens_ += piece.rows.count();
  }
  for (std::size_t m = 0; m < ranks; ++m) {
    const std::int64_t w = shape_.head_width * shape_.sequences;
    by_heads_counts_.push_back(static_cast<std::uint64_t>(own_tokens(me_) * shape_.heads[m].count() * w));
    by_tokens_counts_.push_back(static_cast<std::uint64_t>(own_tokens(m) * shape_.heads[me_].count() * w));
  }
  tokens_side_ = PlacedArray<T>(device_, static_cast<std::size_t>(packed_by_tokens(shape_, me_)));
  heads_side_ = PlacedArray<T>(device_, static_cast<std::size_t>(elements_by_heads()));
}

template <class T>
std::int64_t HeadExchange<T>::elements_by_heads(const HeadExchangeShape& shape, std::size_t member) noexcept {
  return shape.sequences * tokens_of_all(shape) * shape.heads[member].count() * shape.head_width;
}

template <class T>
std::int64_t HeadExchange<T>::room_for(const HeadExchangeShape& shape, std::size_t member) noexcept {
  return packed_by_tokens(shape, member) + elements_by_heads(shape, member);
}

template <class T>
std::int64_t HeadExchange<T>::own_tokens(std::size_t member) const noexcept {
  return tokens_of(shape_.pieces[member]);
}

template <class T>
template <class F>
void HeadExchange<T>::for_each_run(std::size_t member, const F& f) const {
  std::int64_t number = 0;  // a member's pieces ascend, and so do its runs
  for (std::int64_t s = 0; s < shape_.sequences; ++s) {
    for (const Run& run : runs_[member]) {
      f(Run{s * own_tokens(member) + run.own, s * all_tokens_ + run.all, run.count}, number);
      number += run.count;
    }
  }
}

template <class T>
void HeadExchange<T>::send(const PlacedArray<T>& from, const Counts& counts, const PlacedArray<T>& to,
                           const Counts& coming) {
  if (shape_.heads.size() == 1) return math_->copy(from.data(), to.data(), static_cast<std::int64_t>(from.size()));
  sent_ += (from.size() - counts[me_]) * sizeof(T);
  group_
      ->all_to_all_v(ConstBuffer(from.buffer()), to.buffer(), dtype_of_layer<T>(), {counts}, {coming},
                     in_order(device_, group_.options("heads of attention")))
      .get();
}

template <class T>
void HeadExchange<T>::to_heads(const T* by_tokens, std::int64_t stride, T* by_heads) {
  const std::int64_t w = shape_.head_width, mine = shape_.heads[me_].count() * w;
  T* to = tokens_side_.data();
  for (const Rows& heads : shape_.heads) {
    const std::int64_t width = heads.count() * w;
    for_each_run(me_, [&](const Run& run, std::int64_t number) {
      math_->copy_rows(by_tokens + run.own * stride + heads.first * w, stride, to + number * width, width, run.count,
                       width);
    });
    to += shape_.sequences * own_tokens(me_) * width;
  }
  send(tokens_side_, by_heads_counts_, heads_side_, by_tokens_counts_);
  const T* from = heads_side_.data();
  for (std::size_t m = 0; m < runs_.size(); ++m) {
    for_each_run(m, [&](const Run& run, std::int64_t number) {
      math_->copy(from + number * mine, by_heads + run.all * mine, run.count * mine);
    });
    from += by_tokens_counts_[m];
  }
}

template <class T>
void HeadExchange<T>::to_tokens(const T* by_heads, T* by_tokens, std::int64_t stride) {
  const std::int64_t w = shape_.head_width, mine = shape_.heads[me_].count() * w;
  T* to = heads_side_.data();
  for (std::size_t m = 0; m < runs_.size(); ++m) {
    for_each_run(m, [&](const Run& run, std::int64_t number) {
      math_->copy(by_heads + run.all * mine, to + number * mine, run.count * mine);
    });
    to += by_tokens_counts_[m];
  }
  send(heads_side_, by_tokens_counts_, tokens_side_, by_heads_counts_);
  math_->zero_rows(by_tokens, stride, shape_.sequences * own_tokens(me_), shape_.all_heads * w);
  const T* from = tokens_side_.data();
  for (const Rows& heads : shape_.heads) {
    const std::int64_t width = heads.count() * w;
    for_each_run(me_, [&](const Run& run, std::int64_t number) {
      math_->add_rows(from + number * width, width, by_tokens + run.own * stride + heads.first * w, stride, run.count,
                      width);
    });
    from += shape_.sequences * own_tokens(me_) * width;
  }
}

template class HeadExchange<float>;
template class HeadExchange<double>;

}  // namespace sinew::parallel
