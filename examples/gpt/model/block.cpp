#include "block.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "../layers/attention.hpp"
#include "../math/even_math.hpp"
#include "../math/vector_math.hpp"
#include "../parameters.hpp"

namespace gpt {
namespace {

using sinew::parallel::Recompute;

template <class T>
Replicated<T> replicated(const BlockShape& shape, sinew::Communicator& group) {
  return Replicated<T>(shape.part.sequence_parallel ? &group : nullptr);
}

template <class T>
LayerNorm<T> norm_of(const BlockShape& shape, sinew::Communicator& group, int weight) {
  return {weight, weight + 1, shape.whole.width, replicated<T>(shape, group)};
}

template <class T>
std::unique_ptr<Mixer<T>> mixer_of(const BlockShape& shape, int number, const BlockSurroundings<T>& all) {
  if (shape.whole.has_scan(number))
    return std::make_unique<ScanMixer<T>>(shape, number, all.group, all.blas, *all.scan);
  return std::make_unique<AttentionMixer<T>>(shape, number, all.group, all.blas, *all.attention, all.masks);
}

}  // namespace

template <class T>
Block<T>::Block(const BlockShape& shape, int number, Recompute recompute, const BlockSurroundings<T>& all)
    : shape_(shape),
      recompute_(recompute),
      places_(&all.places),
      pass_(&all.pass),
      drop1_(all.seed, fmt::format("blocks.{}.mixer", number), shape.whole.dropout),
      drop2_(all.seed, fmt::format("blocks.{}.mlp", number), shape.whole.dropout),
      norm1_(norm_of<T>(shape, all.group, block_parameters(shape.whole, number).norm1)),
      norm2_(norm_of<T>(shape, all.group, block_parameters(shape.whole, number).norm2)),
      mixer_(mixer_of(shape, number, all)),
      up_(all.group, all.blas,
          shape.linear(fmt::format("blocks.{}.mlp.up", number), shape.whole.width, 4 * std::int64_t{shape.whole.width}),
          block_parameters(shape.whole, number).up, block_parameters(shape.whole, number).up + 1),
      down_(all.group, all.blas,
            shape.linear(fmt::format("blocks.{}.mlp.down", number), 4 * std::int64_t{shape.whole.width},
                         shape.whole.width),
            block_parameters(shape.whole, number).down, block_parameters(shape.whole, number).down + 1,
            replicated<T>(shape, all.group)) {}

template <class T>
std::size_t Block<T>::mixer_elements(const BlockShape& shape, int number) {
  return shape.whole.has_scan(number) ? ScanMixer<T>::kept_for(shape) : AttentionMixer<T>::kept_for(shape);
}

template <class T>
std::int64_t Block<T>::deferred_elements(const BlockShape& shape, int number) {
  const std::int64_t mlp = shape.rows() * (shape.part.bent(shape.whole).count() + shape.whole.width);
  return mlp +
         (shape.whole.has_scan(number) ? ScanMixer<T>::deferred_for(shape) : AttentionMixer<T>::deferred_for(shape));
}

template <class T>
std::int64_t Block<T>::widest_row(const BlockShape& shape) {
  std::int64_t widest = shape.part.bent(shape.whole).count();
  if (shape.whole.has_attention()) widest = std::max(widest, AttentionMixer<T>::row_of(shape));
  if (shape.whole.has_scans()) widest = std::max(widest, ScanMixer<T>::row_of(shape));
  return widest;
}

template <class T>
BlockActivations<T> Block<T>::all(Activations& memory, const BlockShape& shape, std::size_t mixer_elements) {
  const auto take = [&](std::int64_t rows, std::int64_t columns) {
    return memory.take<T>(static_cast<std::size_t>(rows * columns));
  };
  const std::int64_t rows = shape.rows(), own = shape.own_rows(), width = shape.whole.width;
  const std::int64_t bent = shape.part.bent(shape.whole).count();
  return {.in = take(own, width),
          .normed1 = take(own, width),
          .mixer = memory.take<T>(mixer_elements),
          .middle = take(own, width),
          .normed2 = take(own, width),
          .up = take(rows, bent),
          .bent = take(rows, bent),
          .mean1 = take(own, 1),
          .factor1 = take(own, 1),
          .mean2 = take(own, 1),
          .factor2 = take(own, 1)};
}

template <class T>
BlockActivations<T> Block<T>::kept(Activations& memory, const BlockShape& shape, int number, Recompute recompute,
                                   const BlockActivations<T>& shared) {
  if (recompute == Recompute::None) return all(memory, shape, mixer_elements(shape, number));
  BlockActivations<T> a = shared;
  const auto own = [&](std::span<T>& of) { of = memory.take<T>(of.size()); };
  own(a.in);
  if (recompute == Recompute::Full) return a;
  a.mixer = memory.take<T>(mixer_elements(shape, number));
  for (std::span<T>* of : {&a.middle, &a.up, &a.mean1, &a.factor1, &a.mean2, &a.factor2}) own(*of);
  return a;
}

template <class T>
void Block<T>::inner(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch) {
  norm1_.forward(store, weights, own_rows(), a.in.data(), a.mean1.data(), a.factor1.data(), a.normed1.data());
  mixer_->forward(store, weights, a.normed1.data(), a.mixer, scratch, a.middle.data());
  places_->drop(drop1_, *pass_, a.middle.data());
  add(a.middle.data(), a.in.data(), a.in.size());
  norm2_.forward(store, weights, own_rows(), a.middle.data(), a.mean2.data(), a.factor2.data(), a.normed2.data());
  up_.forward(store, weights, a.normed2.data(), scratch.gathered.data(), a.up.data());
  bend(a);
}

template <class T>
void Block<T>::bend(const BlockActivations<T>& a) const {
  if (shape_.part.invariant) return evenly(a.up.data(), a.bent.data(), a.up.size(), gelu<T>);
  gelu(a.up.data(), a.bent.data(), a.up.size());
}

template <class T>
void Block<T>::forward(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch,
                       T* out) {
  inner(store, weights, a, scratch);
  down_.forward(store, weights, a.bent.data(), scratch.other.data(), out);
  places_->drop(drop2_, *pass_, out);
  add(out, a.middle.data(), a.middle.size());
}

template <class T>
void Block<T>::again(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch) {
  switch (recompute_) {
    case Recompute::None: return;
    case Recompute::Full: return inner(store, weights, a, scratch);
    case Recompute::Selective:
      norm1_.again(store, weights, own_rows(), a.in.data(), a.mean1.data(), a.factor1.data(), a.normed1.data());
      norm2_.again(store, weights, own_rows(), a.middle.data(), a.mean2.data(), a.factor2.data(), a.normed2.data());
      bend(a);
  }
}

template <class T>
const T* Block<T>::through(const sinew::parallel::Dropout& dropout, const BlockScratch<T>& scratch, const T* d) const {
  if (shape_.whole.dropout == 0) return d;
  std::copy_n(d, scratch.dropped.size(), scratch.dropped.data());
  places_->drop(dropout, *pass_, scratch.dropped.data());
  return scratch.dropped.data();
}

template <class T>
void Block<T>::backward(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch,
                        T* d) {
  again(store, weights, a, scratch);
  T *narrow_rows = scratch.rows.data(), *wide_rows = scratch.wide.data();
  T *gathered = scratch.gathered.data(), *other = scratch.other.data();
  down_.backward(store, weights, a.bent.data(), through(drop2_, scratch, d), gathered, wide_rows);
  if (shape_.part.invariant) {
    evenly(a.up.data(), wide_rows, a.up.size(), gelu_backward<T>);
  } else {
    gelu_backward(a.up.data(), wide_rows, a.up.size());
  }
  up_.backward(store, weights, a.normed2.data(), wide_rows, gathered, other, narrow_rows);
  norm2_.backward(store, weights, own_rows(), a.middle.data(), a.mean2.data(), a.factor2.data(), narrow_rows, d);
  mixer_->backward(store, weights, a.normed1.data(), a.mixer, through(drop1_, scratch, d), scratch);
  norm1_.backward(store, weights, own_rows(), a.in.data(), a.mean1.data(), a.factor1.data(), narrow_rows, d);
}

template class Block<float>;
template class Block<double>;

}  // namespace gpt
