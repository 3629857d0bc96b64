#include "attention.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "../parameters.hpp"

namespace gpt {
namespace {

namespace sp = sinew::parallel;

/// Heads of this rank. `each` queries share one of keys and values, also where a rank has a part of such a group.
sp::AttentionHeads heads_of(const BlockShape& shape) {
  const sp::HeadCut cut = shape.part.heads(shape.whole);
  const int each = shape.whole.heads / shape.whole.shared_heads();
  const std::int64_t first = cut.queries.count() == 0 ? 0 : cut.queries.first - cut.key_values.first * each;
  return {static_cast<int>(cut.queries.count()), static_cast<int>(cut.key_values.count()), shape.whole.head_width(),
          each, static_cast<int>(first)};
}

std::int64_t row_of_heads(const sp::AttentionHeads& heads) { return heads.width() + 2 * heads.key_value_width(); }

/// What each rank makes: queries, keys, values side by side.
sp::LinearShape qkv_shape(const BlockShape& shape, const std::string& name) {
  sp::LinearShape of = shape.linear(name, shape.whole.width, 0);
  BlockShape theirs = shape;
  of.cut.offsets.push_back(0);
  for (theirs.part.rank = 0; theirs.part.rank < theirs.part.ranks; ++theirs.part.rank)
    of.cut.offsets.push_back(of.cut.offsets.back() + row_of_heads(heads_of(theirs)));
  of.outputs = of.cut.offsets.back();
  if (shape.part.invariant) {  // of queries, keys and values alike
    const std::int64_t shared = std::int64_t{shape.whole.shared_heads()} * shape.whole.head_width();
    of.leaves = std::min(sp::leaves_of(shape.whole.width), sp::leaves_of(shared));
  }
  return of;
}

sp::LinearShape out_shape(const BlockShape& shape, const std::string& name) {
  sp::LinearShape of = shape.linear(name, shape.whole.width, shape.whole.width);
  Part part = shape.part;
  of.cut.offsets.push_back(0);
  for (part.rank = 0; part.rank < part.ranks; ++part.rank) of.cut.offsets.push_back(part.mixed(shape.whole).last);
  return of;
}

/// Where keys and values are not cut each rank has the weights of all and uses those that its queries look at.
std::vector<ColumnPart> qkv_parts(const BlockShape& shape, int mixer) {
  const sp::HeadCut cut = shape.part.heads(shape.whole);
  const sp::AttentionHeads heads = heads_of(shape);
  const std::int64_t w = heads.head_width, shared = heads.key_value_width();
  const std::int64_t stored = cut.key_values_cut ? shared : shape.whole.shared_heads() * w;
  const std::int64_t first = cut.key_values_cut ? 0 : cut.key_values.first * w;
  const bool whole = !cut.key_values_cut;
  return {{mixer + kQueriesWeight, mixer + kQueriesBias, heads.width(), 0, heads.width()},
          {mixer + kKeysValuesWeight, mixer + kKeysValuesBias, 2 * stored, first, shared, whole},
          {mixer + kKeysValuesWeight, mixer + kKeysValuesBias, 2 * stored, stored + first, shared, whole}};
}

}  // namespace

sp::ContextShape attention_shape(const BlockShape& shape) {
  return {heads_of(shape), shape.part.positions(shape.whole), shape.part.head_sharers, shape.sequences,
          shape.part.invariant};
}

template <class T>
AttentionMixer<T>::AttentionMixer(const BlockShape& shape, int number, sinew::Communicator& group, Blas& blas,
                                  sp::ContextAttention<T>& attention, const std::vector<sp::AttentionMask>& masks)
    : shape_(shape),
      first_(block_parameters(shape.whole, number).mixer),
      heads_(heads_of(shape)),
      attention_(&attention),
      masks_(&masks),
      qkv_(group, blas, qkv_shape(shape, fmt::format("blocks.{}.attention.qkv", number)), qkv_parts(shape, first_),
           Replicated<T>(&group)),
      out_(group, blas, out_shape(shape, fmt::format("blocks.{}.attention.out", number)), first_ + kOutWeight,
           first_ + kOutBias, Replicated<T>(shape.part.sequence_parallel ? &group : nullptr)) {}

template <class T>
std::int64_t AttentionMixer<T>::row_of(const BlockShape& shape) {
  return row_of_heads(heads_of(shape));
}

template <class T>
std::size_t AttentionMixer<T>::kept_for(const BlockShape& shape) {
  const sp::AttentionHeads heads = heads_of(shape);
  return static_cast<std::size_t>(shape.rows() * (row_of_heads(heads) + heads.width())) +
         sp::ContextAttention<T>::kept_for(attention_shape(shape), shape.part.context_rank);
}

template <class T>
typename AttentionMixer<T>::Kept AttentionMixer<T>::of(std::span<T> kept) const {
  T* mixed = kept.data() + shape_.rows() * row_of_heads(heads_);
  return {kept.data(), mixed, mixed + shape_.rows() * heads_.width()};
}

template <class T>
template <class U>
sp::Projections<U> AttentionMixer<T>::projections(U* qkv) const noexcept {
  const std::int64_t row = row_of_heads(heads_);
  U* keys = qkv + heads_.width();
  return {qkv, keys, keys + heads_.key_value_width(), row, row};
}

template <class T>
void AttentionMixer<T>::forward(Store& store, Weights<T>& weights, const T* x, std::span<T> kept,
                                const BlockScratch<T>& scratch, T* out) {
  const Kept k = of(kept);
  qkv_.forward(store, weights, x, scratch.gathered.data(), k.qkv);
  std::vector<T> sinks(shape_.whole.sinks ? static_cast<std::size_t>(heads_.heads) : 0);
  attention_->forward(*masks_, projections<const T>(k.qkv), k.mixed, k.inside,
                      shape_.whole.sinks ? weights.vector(store, first_ + kSinks, sinks) : nullptr);
  out_.forward(store, weights, k.mixed, scratch.other.data(), out);
}

template <class T>
void AttentionMixer<T>::backward(Store& store, Weights<T>& weights, const T* x, std::span<T> kept, const T* d,
                                 const BlockScratch<T>& scratch) {
  const Kept k = of(kept);
  T *dx = scratch.rows.data(), *gathered = scratch.gathered.data(), *other = scratch.other.data();
  // What its heads made has no more elements than the input where rows are whole between layers.
  T* mixed = shape_.part.sequence_parallel ? other : dx;
  out_.backward(store, weights, k.mixed, d, gathered, mixed);
  std::vector<T> sinks(shape_.whole.sinks ? static_cast<std::size_t>(heads_.heads) : 0), dsinks(sinks.size());
  attention_->backward(*masks_, projections<const T>(k.qkv), k.mixed, k.inside, mixed,
                       projections<T>(scratch.wide.data()),
                       shape_.whole.sinks ? weights.vector(store, first_ + kSinks, sinks) : nullptr, dsinks.data());
  if (shape_.whole.sinks) Replicated<T>::report(store, weights, first_ + kSinks, dsinks);
  qkv_.backward(store, weights, x, scratch.wide.data(), gathered, other, dx);
}

template class AttentionMixer<float>;
template class AttentionMixer<double>;

}  // namespace gpt
