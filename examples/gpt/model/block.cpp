#include "block.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "../math/vector_math.hpp"
#include "../parameters.hpp"

namespace gpt {
namespace {

using sinew::parallel::LinearShape;
using sinew::parallel::Recompute;

/// Three times what its heads make: queries, keys and values of each rank lie together.
LinearShape qkv_shape(const BlockShape& shape, const std::string& name) {
  LinearShape of = shape.linear(name, shape.whole.width, 3 * std::int64_t{shape.whole.width});
  Part part = shape.part;
  of.cut.offsets.push_back(0);
  for (part.rank = 0; part.rank < part.ranks; ++part.rank) of.cut.offsets.push_back(3 * part.mixed(shape.whole).last);
  return of;
}

LinearShape out_shape(const BlockShape& shape, const std::string& name) {
  LinearShape of = shape.linear(name, shape.whole.width, shape.whole.width);
  Part part = shape.part;
  of.cut.offsets.push_back(0);
  for (part.rank = 0; part.rank < part.ranks; ++part.rank) of.cut.offsets.push_back(part.mixed(shape.whole).last);
  return of;
}

/// The heads that this rank has, as if there were no others.
Shape local(const BlockShape& shape) {
  Shape of = shape.whole;
  of.heads = static_cast<int>(shape.part.of(shape.whole.heads).count());
  of.width = static_cast<int>(shape.part.mixed(shape.whole).count());
  return of;
}

template <class T>
Replicated<T> replicated(const BlockShape& shape, sinew::Communicator& group) {
  return Replicated<T>(shape.part.sequence_parallel ? &group : nullptr);
}

}  // namespace

template <class T>
Block<T>::Block(const BlockShape& shape, int number, Recompute recompute, sinew::Communicator& group, Blas& blas)
    : shape_(shape),
      recompute_(recompute),
      blas_(&blas),
      norm1_{of_block(number, kNorm1Weight), of_block(number, kNorm1Bias), shape.whole.width,
             replicated<T>(shape, group)},
      norm2_{of_block(number, kNorm2Weight), of_block(number, kNorm2Bias), shape.whole.width,
             replicated<T>(shape, group)},
      attention_{local(shape)},
      qkv_(group, blas, qkv_shape(shape, fmt::format("blocks.{}.attention.qkv", number)), of_block(number, kQkvWeight),
           of_block(number, kQkvBias)),
      up_(group, blas,
          shape.linear(fmt::format("blocks.{}.mlp.up", number), shape.whole.width, 4 * std::int64_t{shape.whole.width}),
          of_block(number, kUpWeight), of_block(number, kUpBias)),
      out_(group, blas, out_shape(shape, fmt::format("blocks.{}.attention.out", number)), of_block(number, kOutWeight),
           of_block(number, kOutBias), replicated<T>(shape, group)),
      down_(group, blas,
            shape.linear(fmt::format("blocks.{}.mlp.down", number), 4 * std::int64_t{shape.whole.width},
                         shape.whole.width),
            of_block(number, kDownWeight), of_block(number, kDownBias), replicated<T>(shape, group)) {}

template <class T>
BlockActivations<T> Block<T>::all(Activations& memory, const BlockShape& shape) {
  const auto take = [&](std::int64_t rows, std::int64_t columns) {
    return memory.take<T>(static_cast<std::size_t>(rows * columns));
  };
  const std::int64_t rows = shape.rows(), own = shape.own_rows(), width = shape.whole.width;
  const Shape mine = local(shape);
  const std::int64_t bent = shape.part.bent(shape.whole).count();
  return {.in = take(own, width),
          .normed1 = take(own, width),
          .qkv = take(rows, 3 * std::int64_t{mine.width}),
          .weights = take(rows, std::int64_t{mine.heads} * mine.context),
          .mixed = take(rows, mine.width),
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
BlockActivations<T> Block<T>::kept(Activations& memory, const BlockActivations<T>& shared) const {
  if (recompute_ == Recompute::None) return all(memory, shape_);
  BlockActivations<T> a = shared;
  const auto own = [&](std::span<T>& of) { of = memory.take<T>(of.size()); };
  own(a.in);
  if (recompute_ == Recompute::Full) return a;
  for (std::span<T>* of : {&a.qkv, &a.mixed, &a.middle, &a.up, &a.mean1, &a.factor1, &a.mean2, &a.factor2}) own(*of);
  return a;
}

template <class T>
void Block<T>::inner(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch) {
  norm1_.forward(store, weights, own_rows(), a.in.data(), a.mean1.data(), a.factor1.data(), a.normed1.data());
  qkv_.forward(store, weights, a.normed1.data(), scratch.gathered.data(), a.qkv.data());
  attention_.forward(*blas_, shape_.sequences, a.qkv.data(), a.weights.data(), a.mixed.data());
  out_.forward(store, weights, a.mixed.data(), scratch.other.data(), a.middle.data());
  add(a.middle.data(), a.in.data(), a.in.size());
  norm2_.forward(store, weights, own_rows(), a.middle.data(), a.mean2.data(), a.factor2.data(), a.normed2.data());
  up_.forward(store, weights, a.normed2.data(), scratch.gathered.data(), a.up.data());
  gelu(a.up.data(), a.bent.data(), a.up.size());
}

template <class T>
void Block<T>::forward(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch,
                       T* out) {
  inner(store, weights, a, scratch);
  down_.forward(store, weights, a.bent.data(), scratch.other.data(), out);
  add(out, a.middle.data(), a.middle.size());
}

template <class T>
void Block<T>::again(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch) {
  switch (recompute_) {
    case Recompute::None: return;
    case Recompute::Full: return inner(store, weights, a, scratch);
    case Recompute::Selective:
      norm1_.again(store, weights, own_rows(), a.in.data(), a.mean1.data(), a.factor1.data(), a.normed1.data());
      attention_.again(*blas_, shape_.sequences, a.qkv.data(), a.weights.data());
      norm2_.again(store, weights, own_rows(), a.middle.data(), a.mean2.data(), a.factor2.data(), a.normed2.data());
      gelu(a.up.data(), a.bent.data(), a.up.size());
  }
}

template <class T>
void Block<T>::backward(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch,
                        T* d) {
  again(store, weights, a, scratch);
  T *narrow_rows = scratch.rows.data(), *wide_rows = scratch.wide.data();
  T *gathered = scratch.gathered.data(), *other = scratch.other.data();
  down_.backward(store, weights, a.bent.data(), d, gathered, wide_rows);
  gelu_backward(a.up.data(), wide_rows, a.up.size());
  up_.backward(store, weights, a.normed2.data(), wide_rows, gathered, other, narrow_rows);
  norm2_.backward(store, weights, own_rows(), a.middle.data(), a.mean2.data(), a.factor2.data(), narrow_rows, d);
  // What its heads made has as many elements as the input where there is one rank, fewer else.
  T* mixed = shape_.part.sequence_parallel ? other : narrow_rows;
  out_.backward(store, weights, a.mixed.data(), d, gathered, mixed);
  attention_.backward(*blas_, shape_.sequences, a.qkv.data(), a.weights.data(), mixed, scratch.square.data(),
                      wide_rows);
  qkv_.backward(store, weights, a.normed1.data(), wide_rows, gathered, other, narrow_rows);
  norm1_.backward(store, weights, own_rows(), a.in.data(), a.mean1.data(), a.factor1.data(), narrow_rows, d);
}

template class Block<float>;
template class Block<double>;

}  // namespace gpt
