#include "block.hpp"

#include <algorithm>

#include "../math/vector_math.hpp"
#include "../parameters.hpp"

namespace gpt {

using sinew::parallel::Recompute;

template <class T>
Block<T>::Block(const Shape& shape, int number, Recompute recompute)
    : shape_(shape),
      recompute_(recompute),
      norm1_{of_block(number, kNorm1Weight), of_block(number, kNorm1Bias), shape.width},
      norm2_{of_block(number, kNorm2Weight), of_block(number, kNorm2Bias), shape.width},
      attention_{shape},
      qkv_{of_block(number, kQkvWeight), of_block(number, kQkvBias), shape.width, 3 * shape.width},
      out_{of_block(number, kOutWeight), of_block(number, kOutBias), shape.width, shape.width},
      up_{of_block(number, kUpWeight), of_block(number, kUpBias), shape.width, 4 * shape.width},
      down_{of_block(number, kDownWeight), of_block(number, kDownBias), 4 * shape.width, shape.width} {}

template <class T>
BlockActivations<T> Block<T>::all(Activations& memory, const Shape& shape, int sequences) {
  const auto rows = static_cast<std::size_t>(sequences) * static_cast<std::size_t>(shape.context);
  const auto width = static_cast<std::size_t>(shape.width);
  const auto take = [&](std::size_t columns) { return memory.take<T>(rows * columns); };
  const auto seen = static_cast<std::size_t>(shape.heads) * static_cast<std::size_t>(shape.context);
  return {.in = take(width),
          .normed1 = take(width),
          .qkv = take(3 * width),
          .weights = take(seen),
          .mixed = take(width),
          .middle = take(width),
          .normed2 = take(width),
          .up = take(4 * width),
          .bent = take(4 * width),
          .mean1 = take(1),
          .factor1 = take(1),
          .mean2 = take(1),
          .factor2 = take(1)};
}

template <class T>
BlockActivations<T> Block<T>::kept(Activations& memory, int sequences, const BlockActivations<T>& shared) const {
  if (recompute_ == Recompute::None) return all(memory, shape_, sequences);
  BlockActivations<T> a = shared;
  const auto own = [&](std::span<T>& of) { of = memory.take<T>(of.size()); };
  own(a.in);
  if (recompute_ == Recompute::Full) return a;
  for (std::span<T>* of : {&a.qkv, &a.mixed, &a.middle, &a.up, &a.mean1, &a.factor1, &a.mean2, &a.factor2}) own(*of);
  return a;
}

template <class T>
void Block<T>::inner(Store& store, Weights<T>& weights, Blas& blas, int sequences, const BlockActivations<T>& a) const {
  const int rows = sequences * shape_.context;
  norm1_.forward(store, weights, rows, a.in.data(), a.mean1.data(), a.factor1.data(), a.normed1.data());
  qkv_.forward(store, weights, blas, rows, a.normed1.data(), a.qkv.data());
  attention_.forward(blas, sequences, a.qkv.data(), a.weights.data(), a.mixed.data());
  out_.forward(store, weights, blas, rows, a.mixed.data(), a.middle.data());
  add(a.middle.data(), a.in.data(), a.in.size());
  norm2_.forward(store, weights, rows, a.middle.data(), a.mean2.data(), a.factor2.data(), a.normed2.data());
  up_.forward(store, weights, blas, rows, a.normed2.data(), a.up.data());
  gelu(a.up.data(), a.bent.data(), a.up.size());
}

template <class T>
void Block<T>::forward(Store& store, Weights<T>& weights, Blas& blas, int sequences, const BlockActivations<T>& a,
                       T* out) const {
  inner(store, weights, blas, sequences, a);
  down_.forward(store, weights, blas, sequences * shape_.context, a.bent.data(), out);
  add(out, a.middle.data(), a.middle.size());
}

template <class T>
void Block<T>::again(Store& store, Weights<T>& weights, Blas& blas, int sequences, const BlockActivations<T>& a) const {
  const int rows = sequences * shape_.context;
  switch (recompute_) {
    case Recompute::None: return;
    case Recompute::Full: return inner(store, weights, blas, sequences, a);
    case Recompute::Selective:
      norm1_.again(store, weights, rows, a.in.data(), a.mean1.data(), a.factor1.data(), a.normed1.data());
      attention_.again(blas, sequences, a.qkv.data(), a.weights.data());
      norm2_.again(store, weights, rows, a.middle.data(), a.mean2.data(), a.factor2.data(), a.normed2.data());
      gelu(a.up.data(), a.bent.data(), a.up.size());
  }
}

template <class T>
void Block<T>::backward(Store& store, Weights<T>& weights, Blas& blas, int sequences, const BlockActivations<T>& a,
                        const BlockScratch<T>& scratch, T* d) const {
  again(store, weights, blas, sequences, a);
  const int rows = sequences * shape_.context;
  T *narrow_rows = scratch.rows.data(), *wide_rows = scratch.wide.data();
  down_.backward(store, weights, blas, rows, a.bent.data(), d, wide_rows);
  gelu_backward(a.up.data(), wide_rows, a.up.size());
  up_.backward(store, weights, blas, rows, a.normed2.data(), wide_rows, narrow_rows);
  norm2_.backward(store, weights, rows, a.middle.data(), a.mean2.data(), a.factor2.data(), narrow_rows, d);
  out_.backward(store, weights, blas, rows, a.mixed.data(), d, narrow_rows);
  attention_.backward(blas, sequences, a.qkv.data(), a.weights.data(), narrow_rows, scratch.square.data(), wide_rows);
  qkv_.backward(store, weights, blas, rows, a.normed1.data(), wide_rows, narrow_rows);
  norm1_.backward(store, weights, rows, a.in.data(), a.mean1.data(), a.factor1.data(), narrow_rows, d);
}

template class Block<float>;
template class Block<double>;

}  // namespace gpt
