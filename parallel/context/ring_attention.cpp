#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/context/ring_attention.hpp>
#include <sinew/parallel/tensor/exchange.hpp>
#include <sinew/parallel/tensor/matrix.hpp>

namespace sinew::parallel {

template <class T>
RingAttention<T>::RingAttention(Communicator& group, Blas& blas, const AttentionHeads& heads, SequenceCut cut,
                                bool causal)
    : group_(&group),
      cut_(std::move(cut)),
      rank_(GroupPlace(group).rank),
      ranks_(GroupPlace(group).ranks),
      block_(blas, heads, causal) {
  if (cut_.ranks() != ranks_)
    throw Error(Code::InvalidArgument,
                fmt::format("ring attention: a sequence cut for {} ranks, expected {}, those of the group",
                            cut_.ranks(), ranks_));
  const auto most = static_cast<std::size_t>(2 * cut_.most_tokens() * heads.key_value_width());
  now_.resize(most);
  next_.resize(ranks_ > 1 ? most : 0);
}

template <class T>
void RingAttention<T>::pack(const T* keys, const T* values) {
  const std::int64_t each = elements(rank_) / 2;
  std::copy_n(keys, each, now_.data());
  std::copy_n(values, each, now_.data() + each);
}

template <class T>
Work RingAttention<T>::pass_on(int step, std::vector<T>& from, std::vector<T>& to) {
  const int up = (rank_ + 1) % ranks_, down = (rank_ + ranks_ - 1) % ranks_;
  const ConstBuffer out = elements_of<T>(static_cast<const T*>(from.data()), elements(owner(step)));
  sent_ += out.bytes;
  return group_->sendrecv(out, up, elements_of(to.data(), elements(owner(step + 1))), down);
}

template <class T>
template <class F>
void RingAttention<T>::for_each_piece(const T* queries, int owner, const F& f) {
  const std::int64_t width = block_.heads().width(), shared = block_.heads().key_value_width();
  const std::int64_t theirs = cut_.tokens(owner);
  std::int64_t q = 0;
  for (const Rows& mine : cut_.pieces(rank_)) {
    const Tokens<const T> some{queries + q * width, mine.count(), width, mine.first};
    std::int64_t k = 0;
    for (const Rows& piece : cut_.pieces(owner)) {
      const Tokens<const T> keys{now_.data() + k * shared, piece.count(), shared, piece.first};
      const Tokens<const T> values{now_.data() + (theirs + k) * shared, piece.count(), shared, piece.first};
      f(some, keys, values, q, k);
      k += piece.count();
    }
    q += mine.count();
  }
}

template <class T>
void RingAttention<T>::forward(const T* queries, const T* keys, const T* values, T* out, T* lse) {
  const std::int64_t tokens = cut_.tokens(rank_), width = block_.heads().width();
  std::fill_n(out, tokens * width, T{0});
  std::fill_n(lse, tokens * block_.heads().heads, -std::numeric_limits<T>::infinity());
  pack(keys, values);
  for (int step = 0; step < ranks_; ++step) {
    Work coming;
    if (step + 1 < ranks_) coming = pass_on(step, now_, next_);
    for_each_piece(queries, owner(step), [&](const auto& some, const auto& k, const auto& v, std::int64_t q, auto) {
      block_.forward(some, k, v, out + q * width, lse + q * block_.heads().heads);
    });
    coming.get();
    if (step + 1 < ranks_) std::swap(now_, next_);
  }
}

template <class T>
void RingAttention<T>::backward(const T* queries, const T* keys, const T* values, const T* out, const T* lse,
                                const T* dout, T* dqueries, T* dkeys, T* dvalues) {
  const std::int64_t tokens = cut_.tokens(rank_), width = block_.heads().width();
  const std::int64_t shared = block_.heads().key_value_width();
  const int heads = block_.heads().heads, head_width = block_.heads().head_width;
  std::vector<T> along(static_cast<std::size_t>(tokens * heads));
  for (std::int64_t i = 0; i < tokens * heads; ++i) {
    T sum{0};
    for (std::int64_t d = i * head_width; d < (i + 1) * head_width; ++d) sum += dout[d] * out[d];
    along[static_cast<std::size_t>(i)] = sum;
  }
  std::fill_n(dqueries, tokens * width, T{0});
  pack(keys, values);
  gradients_.assign(now_.size(), T{0});
  next_gradients_.resize(now_.size());
  Work gradients_coming;
  for (int step = 0; step < ranks_; ++step) {
    Work coming;
    if (step + 1 < ranks_) coming = pass_on(step, now_, next_);
    // What ranks before have made of these keys' gradients is awaited only when this rank's share is to be added.
    gradients_coming.get();
    if (step > 0) std::swap(gradients_, next_gradients_);
    for_each_piece(queries, owner(step),
                   [&](const auto& some, const auto& k, const auto& v, std::int64_t q, std::int64_t at) {
                     const Tokens<T> to_keys{gradients_.data() + at * shared, k.count, shared, k.first};
                     const Tokens<T> to_values{gradients_.data() + (cut_.tokens(owner(step)) + at) * shared, v.count,
                                               shared, v.first};
                     block_.backward(some, k, v, dout + q * width, lse + q * heads, along.data() + q * heads,
                                     dqueries + q * width, to_keys, to_values);
                   });
    coming.get();
    if (ranks_ > 1) {
      gradients_coming = pass_on(step, gradients_, next_gradients_);
      std::swap(now_, next_);
    }
  }
  gradients_coming.get();
  const std::vector<T>& mine = ranks_ > 1 ? next_gradients_ : gradients_;
  std::copy_n(mine.data(), tokens * shared, dkeys);
  std::copy_n(mine.data() + tokens * shared, tokens * shared, dvalues);
}

template class RingAttention<float>;
template class RingAttention<double>;

}  // namespace sinew::parallel
