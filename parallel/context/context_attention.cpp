#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/context/context_attention.hpp>

namespace sinew::parallel {
namespace {

constexpr std::int64_t kMostSequences = std::int64_t{1} << 32;

/// Heads that number `index` of those that share them is to have: of queries, or of keys and values.
Rows query_rows(const ContextShape& shape, int index) noexcept {
  return rows_of({}, index, shape.sharing, shape.heads.heads);
}
Rows key_value_rows(const ContextShape& shape, int index) noexcept {
  const Rows queries = query_rows(shape, index);
  if (queries.count() == 0) return {};
  return {shape.heads.key_value_of(static_cast<int>(queries.first)),
          shape.heads.key_value_of(static_cast<int>(queries.last) - 1) + 1};
}

HeadExchangeShape exchange_of(const ContextShape& shape, int rank, bool queries) {
  HeadExchangeShape of{
      {}, {}, queries ? shape.heads.heads : shape.heads.key_value_heads, shape.heads.head_width, shape.sequences};
  const int first = rank - rank % shape.sharing;
  for (int i = 0; i < shape.sharing; ++i) {
    of.pieces.push_back(shape.cut.pieces(first + i));
    of.heads.push_back(queries ? query_rows(shape, i) : key_value_rows(shape, i));
  }
  return of;
}

std::size_t as_size(std::int64_t n) noexcept { return static_cast<std::size_t>(n); }

const ContextShape& checked(const ContextShape& shape, int sharing, int ring) {
  shape.require(0);
  if (shape.sharing != sharing || shape.cut.ranks() != sharing * ring)
    throw Error(Code::InvalidArgument,
                fmt::format("context attention: a sequence cut for {} ranks, {} of which share heads; expected {} and "
                            "{}, those of the groups",
                            shape.cut.ranks(), shape.sharing, sharing * ring, sharing));
  return shape;
}

}  // namespace

void ContextShape::require(int rank) const {
  require_heads(heads);
  const bool divides = sharing >= 1 && cut.ranks() % sharing == 0;
  const bool exists = rank >= 0 && rank < cut.ranks();
  if (divides && exists && sequences >= 1 && sequences <= kMostSequences) return;
  throw Error(Code::InvalidArgument,
              fmt::format("context attention: {} sequences cut for {} ranks, {} of which share heads, on rank {}: "
                          "expected 1 to {} sequences, a divisor of the ranks, and a rank among them",
                          sequences, cut.ranks(), sharing, rank, kMostSequences));
}

AttentionHeads ContextShape::heads_of(int index) const noexcept {
  if (sharing == 1) return heads;
  const Rows queries = query_rows(*this, index), shared = key_value_rows(*this, index);
  const int each = heads.each != 0 ? heads.each : heads.heads / std::max(heads.key_value_heads, 1);
  return {static_cast<int>(queries.count()), static_cast<int>(shared.count()), heads.head_width, std::max(each, 1),
          queries.count() == 0 ? 0 : static_cast<int>(heads.first + queries.first - shared.first * each)};
}

template <class T>
ContextAttention<T>::ContextAttention(CallGroup sharing, CallGroup ring, Blas& blas, const ContextShape& shape)
    : shape_(checked(shape, GroupPlace(sharing).ranks, GroupPlace(ring).ranks)),
      mine_(shape.heads_of(GroupPlace(sharing).rank)),
      first_head_(query_rows(shape, GroupPlace(sharing).rank).first) {
  if (shape.invariant) {
    invariant_.emplace(ring, blas, mine_, shape.cut.joined(shape.sharing), shape.sequences);
  } else {
    ring_.emplace(ring, blas, mine_, shape.cut.joined(shape.sharing), shape.sequences);
  }
  if (blas.device().exists() && shape.invariant)
    throw Error(Code::InvalidArgument,
                "context attention: layout-invariant sums on a device; expected sums in the fastest way, or memory of "
                "the host");
  const int rank = GroupPlace(ring).rank * shape.sharing + GroupPlace(sharing).rank;
  plan_ = plan_of(shape, rank);
  if (shape.sharing == 1) return;
  queries_.emplace(sharing, exchange_of(shape, rank, true), blas.device());
  key_values_.emplace(sharing, exchange_of(shape, rank, false), blas.device());
  back_ = PlacedArray<T>(blas.device(), as_size(2 * (plan_.queries + plan_.key_values)));
}

template <class T>
typename ContextAttention<T>::Plan ContextAttention<T>::plan_of(const ContextShape& shape, int rank) {
  const AttentionHeads heads = shape.heads_of(rank % shape.sharing);
  const std::int64_t tokens = shape.sequences * shape.cut.joined(shape.sharing).tokens(rank / shape.sharing);
  return {tokens * heads.width(), tokens * heads.key_value_width(), tokens * heads.heads};
}

template <class T>
template <class U>
Projections<U> ContextAttention<T>::projections(U* at, const Plan& plan, const AttentionHeads& heads) noexcept {
  return {at, at + plan.queries, at + plan.queries + plan.key_values, heads.width(), heads.key_value_width()};
}

template <class T>
std::size_t ContextAttention<T>::kept_for(const ContextShape& shape, int rank) {
  shape.require(rank);
  const Plan plan = plan_of(shape, rank);
  return as_size(plan.lse + (shape.sharing == 1 ? 0 : 2 * (plan.queries + plan.key_values)));
}

template <class T>
std::size_t ContextAttention<T>::room_for(const ContextShape& shape, int rank) {
  shape.require(rank);
  const int index = rank % shape.sharing;
  const SequenceCut cut = shape.cut.joined(shape.sharing);
  const std::size_t ring =
      shape.invariant ? InvariantAttention<T>::room_for(shape.heads_of(index), cut, shape.sequences)
                      : RingAttention<T>::room_for(shape.heads_of(index), cut, rank / shape.sharing, shape.sequences);
  if (shape.sharing == 1) return ring;
  const Plan plan = plan_of(shape, rank);
  return ring + as_size(2 * (plan.queries + plan.key_values)) +
         as_size(HeadExchange<T>::room_for(exchange_of(shape, rank, true), as_size(index)) +
                 HeadExchange<T>::room_for(exchange_of(shape, rank, false), as_size(index)));
}

template <class T>
std::size_t ContextAttention<T>::held_bytes() const noexcept {
  std::size_t held = (invariant_ ? invariant_->held_bytes() : ring_->held_bytes()) + back_.size() * sizeof(T);
  for (const auto* exchange : {&queries_, &key_values_}) held += *exchange ? (*exchange)->held_bytes() : 0;
  return held;
}

template <class T>
std::size_t ContextAttention<T>::sent_bytes() const noexcept {
  std::size_t sent = invariant_ ? invariant_->sent_bytes() : ring_->sent_bytes();
  for (const auto* exchange : {&queries_, &key_values_}) sent += *exchange ? (*exchange)->sent_bytes() : 0;
  return sent;
}

template <class T>
void ContextAttention<T>::forward_around(std::span<const AttentionMask> masks, const Projections<const T>& in, T* out,
                                         T* lse, const T* sinks) {
  if (!invariant_) return ring_->forward(masks, in, out, lse, sinks);
  if (sinks != nullptr)
    throw Error(Code::InvalidArgument,
                "context attention: sinks were given, which layout-invariant sums lack; leave one of the two out");
  invariant_->forward(masks, in, out, lse);
}

template <class T>
void ContextAttention<T>::backward_around(std::span<const AttentionMask> masks, const Projections<const T>& in,
                                          const T* out, const T* lse, const T* dout, const Projections<T>& to,
                                          const T* sinks, T* dsinks) {
  if (!invariant_) return ring_->backward(masks, in, out, lse, dout, to, sinks, dsinks);
  invariant_->backward(masks, in, out, lse, dout, to);
}

template <class T>
void ContextAttention<T>::forward(std::span<const AttentionMask> masks, const Projections<const T>& in, T* out, T* kept,
                                  const T* sinks) {
  if (shape_.sharing == 1) return forward_around(masks, in, out, kept, sinks);
  const Projections<T> by_heads = projections<T>(kept, plan_, mine_);
  queries_->to_heads(in.queries, in.query_stride, by_heads.queries);
  key_values_->to_heads(in.keys, in.key_value_stride, by_heads.keys);
  key_values_->to_heads(in.values, in.key_value_stride, by_heads.values);
  T* of_heads = by_heads.values + plan_.key_values;
  forward_around(masks, projections<const T>(kept, plan_, mine_), of_heads, of_heads + plan_.queries,
                 sinks != nullptr ? sinks + first_head_ : nullptr);
  queries_->to_tokens(of_heads, out, shape_.heads.width());
}

template <class T>
void ContextAttention<T>::backward(std::span<const AttentionMask> masks, const Projections<const T>& in, const T* out,
                                   const T* kept, const T* dout, const Projections<T>& to, const T* sinks, T* dsinks) {
  if (shape_.sharing == 1) return backward_around(masks, in, out, kept, dout, to, sinks, dsinks);
  if (sinks != nullptr) {  // of other heads others have them
    std::fill_n(dsinks, shape_.heads.heads, T{0});
    sinks += first_head_, dsinks += first_head_;
  }
  const Projections<T> back = projections<T>(back_.data(), plan_, mine_);
  T* slope = back.values + plan_.key_values;
  queries_->to_heads(dout, shape_.heads.width(), slope);
  const T* of_heads = kept + plan_.queries + 2 * plan_.key_values;
  backward_around(masks, projections<const T>(kept, plan_, mine_), of_heads, of_heads + plan_.queries, slope, back,
                  sinks, dsinks);
  queries_->to_tokens(back.queries, to.queries, to.query_stride);
  key_values_->to_tokens(back.keys, to.keys, to.key_value_stride);
  key_values_->to_tokens(back.values, to.values, to.key_value_stride);
}

template class ContextAttention<float>;
template class ContextAttention<double>;

}  // namespace sinew::parallel
