#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/awaited_work.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/context/ring_attention.hpp>

namespace sinew::parallel {

template <class T>
RingAttention<T>::RingAttention(CallGroup group, Blas& blas, const AttentionHeads& heads, SequenceCut cut,
                                std::int64_t sequences)
    : group_(group),
      cut_(std::move(cut)),
      sequences_(sequences),
      rank_(GroupPlace(group).rank),
      ranks_(GroupPlace(group).ranks),
      device_(blas.device()),
      math_(layer_math<T>(device_)),
      block_(blas, heads) {
  if (cut_.ranks() != ranks_)
    throw Error(Code::InvalidArgument,
                fmt::format("ring attention: a sequence cut for {} ranks, expected {}, those of the group",
                            cut_.ranks(), ranks_));
  if (sequences < 1)
    throw Error(Code::InvalidArgument, fmt::format("ring attention: {} sequences, expected 1 or more", sequences));
  along_ = PlacedArray<T>(device_, static_cast<std::size_t>(tokens() * heads.heads));
  const std::size_t travels = (room_for(heads, cut_, rank_, sequences) - along_.size()) / 4;
  for (PlacedArray<T>* of : {&now_, &next_, &gradients_, &next_gradients_}) *of = PlacedArray<T>(device_, travels);
}

template <class T>
std::size_t RingAttention<T>::room_for(const AttentionHeads& heads, const SequenceCut& cut, int rank,
                                       std::int64_t sequences) noexcept {
  const std::int64_t along = sequences * cut.tokens(rank) * heads.heads;
  const std::int64_t travels = cut.ranks() == 1 ? 0 : 2 * sequences * cut.most_tokens() * heads.key_value_width();
  return static_cast<std::size_t>(along + 4 * travels);
}

template <class T>
void RingAttention<T>::require(std::span<const AttentionMask> masks) const {
  if (masks.size() == 1 || std::ssize(masks) == sequences_) return;
  throw Error(Code::InvalidArgument,
              fmt::format("ring attention: {} masks for {} sequences, expected one for all or one for each",
                          masks.size(), sequences_));
}

template <class T>
void RingAttention<T>::require_sinks(const T* sinks) const {
  if (sinks == nullptr || !device_.exists()) return;
  throw Error(Code::InvalidArgument,
              "ring attention: sinks on a device; expected attention without sinks, or memory of the host");
}

template <class T>
void RingAttention<T>::pack(const Projections<const T>& in) {
  if (ranks_ == 1) return;
  const std::int64_t shared = block_.heads().key_value_width();
  math_->copy_rows(in.keys, in.key_value_stride, now_.data(), shared, tokens(), shared);
  math_->copy_rows(in.values, in.key_value_stride, now_.data() + half(rank_), shared, tokens(), shared);
}

template <class T>
template <class U>
Projections<U> RingAttention<T>::travelling(U* all, int owner, const Projections<U>& own) const noexcept {
  if (ranks_ == 1) return own;
  return {nullptr, all, all + half(owner), 0, block_.heads().key_value_width()};
}

template <class T>
Work RingAttention<T>::pass_on(int step, const PlacedArray<T>& from, const PlacedArray<T>& to) {
  const int up = (rank_ + 1) % ranks_, down = (rank_ + ranks_ - 1) % ranks_;
  const ConstBuffer out(placed(device_, from.data(), 2 * half(owner(step))));
  sent_ += out.bytes;
  return group_->sendrecv(out, up, placed(device_, to.data(), 2 * half(owner(step + 1))), down, 0, 0,
                          in_order(device_, group_.options("ring attention")));
}

template <class T>
template <class F>
void RingAttention<T>::for_each_meeting(std::span<const AttentionMask> masks, const Projections<const T>& in, int owner,
                                        const F& f) {
  const Projections<const T> here = travelling<const T>(now_.data(), owner, in);
  const std::int64_t stride = here.key_value_stride;
  for (std::int64_t s = 0; s < sequences_; ++s) {
    const AttentionMask& mask = masks[masks.size() == 1 ? 0 : static_cast<std::size_t>(s)];
    std::int64_t q = s * cut_.tokens(rank_);
    for (const Rows& mine : cut_.pieces(rank_)) {
      const Tokens<const T> some{in.queries + q * in.query_stride, mine.count(), in.query_stride, mine.first};
      std::int64_t k = s * cut_.tokens(owner);
      for (const Rows& piece : cut_.pieces(owner)) {
        f(Meeting{some,
                  {here.keys + k * stride, piece.count(), stride, piece.first},
                  {here.values + k * stride, piece.count(), stride, piece.first},
                  q,
                  k,
                  &mask});
        k += piece.count();
      }
      q += mine.count();
    }
  }
}

template <class T>
void RingAttention<T>::forward(std::span<const AttentionMask> masks, const Projections<const T>& in, T* out, T* lse,
                               const T* sinks) {
  require(masks);
  const std::int64_t width = block_.heads().width();
  const int heads = block_.heads().heads;
  require_sinks(sinks);
  math_->fill(out, T{0}, tokens() * width);
  math_->fill(lse, -std::numeric_limits<T>::infinity(), tokens() * heads);
  pack(in);
  for (int step = 0; step < ranks_; ++step) {
    AwaitedWork coming;
    if (step + 1 < ranks_) coming = AwaitedWork(pass_on(step, now_, next_));
    for_each_meeting(masks, in, owner(step), [&](const Meeting& m) {
      block_.forward(*m.mask, m.queries, m.keys, m.values, out + m.query * width, lse + m.query * heads);
    });
    coming.get();
    if (step + 1 < ranks_) std::swap(now_, next_);
  }
  if (sinks != nullptr) take_in(sinks, out, lse);
}

/// A sink has no value, so its share of the weights goes to no output.
template <class T>
void RingAttention<T>::take_in(const T* sinks, T* out, T* lse) const {
  const int heads = block_.heads().heads, width = block_.heads().head_width;
  for (std::int64_t i = 0; i < tokens() * heads; ++i) {
    const T before = lse[i], sink = sinks[i % heads], most = std::max(before, sink);
    lse[i] = std::isnan(before) ? before : most + std::log(std::exp(before - most) + std::exp(sink - most));
    const T left = std::exp(before - lse[i]);
    for (std::int64_t d = i * width; d < (i + 1) * width; ++d) out[d] *= left;
  }
}

template <class T>
void RingAttention<T>::sink_gradients(const T* sinks, const T* lse, T* dsinks) const {
  const int heads = block_.heads().heads;
  std::fill_n(dsinks, heads, T{0});
  for (std::int64_t i = 0; i < tokens() * heads; ++i)
    dsinks[i % heads] -= std::exp(sinks[i % heads] - lse[i]) * along_.data()[i];
}

template <class T>
void RingAttention<T>::sum_along(const T* out, const T* dout) {
  math_->dot_rows(dout, out, static_cast<std::int64_t>(along_.size()), block_.heads().head_width, along_.data());
}

template <class T>
void RingAttention<T>::backward(std::span<const AttentionMask> masks, const Projections<const T>& in, const T* out,
                                const T* lse, const T* dout, const Projections<T>& to, const T* sinks, T* dsinks) {
  require(masks);
  const std::int64_t width = block_.heads().width(), shared = block_.heads().key_value_width();
  const int heads = block_.heads().heads;
  sum_along(out, dout);
  if (sinks != nullptr) sink_gradients(sinks, lse, dsinks);
  math_->zero_rows(to.queries, to.query_stride, tokens(), width);
  if (ranks_ == 1) {
    math_->zero_rows(to.keys, to.key_value_stride, tokens(), shared);
    math_->zero_rows(to.values, to.key_value_stride, tokens(), shared);
  }
  pack(in);
  math_->fill(gradients_.data(), T{0}, static_cast<std::int64_t>(gradients_.size()));
  AwaitedWork gradients_coming;
  for (int step = 0; step < ranks_; ++step) {
    AwaitedWork coming;
    if (step + 1 < ranks_) coming = AwaitedWork(pass_on(step, now_, next_));
    // The earlier ranks' share of these keys' gradients is awaited only when this rank's share is to be added.
    gradients_coming.get();
    if (step > 0) std::swap(gradients_, next_gradients_);
    const Projections<T> sums = travelling<T>(gradients_.data(), owner(step), to);
    for_each_meeting(masks, in, owner(step), [&](const Meeting& m) {
      const auto sum = [&](T* of) {
        return Tokens<T>{of + m.key * sums.key_value_stride, m.keys.count, sums.key_value_stride, m.keys.first};
      };
      block_.backward(*m.mask, m.queries, m.keys, m.values, dout + m.query * width, lse + m.query * heads,
                      along_.data() + m.query * heads,
                      {to.queries + m.query * to.query_stride, m.queries.count, to.query_stride, m.queries.first},
                      sum(sums.keys), sum(sums.values));
    });
    coming.get();
    if (ranks_ > 1) {
      gradients_coming = AwaitedWork(pass_on(step, gradients_, next_gradients_));
      std::swap(now_, next_);
    }
  }
  gradients_coming.get();
  if (ranks_ == 1) return;
  math_->copy_rows(next_gradients_.data(), shared, to.keys, to.key_value_stride, tokens(), shared);
  math_->copy_rows(next_gradients_.data() + half(rank_), shared, to.values, to.key_value_stride, tokens(), shared);
}

template class RingAttention<float>;
template class RingAttention<double>;

}  // namespace sinew::parallel
