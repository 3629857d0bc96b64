#include "mlp.hpp"

#include <fmt/format.h>

#include "../math/even_math.hpp"
#include "../math/vector_math.hpp"
#include "../parameters.hpp"

namespace gpt {

using sinew::parallel::Recompute;

template <class T>
Mlp<T>::Mlp(const BlockShape& shape, int number, Recompute recompute, sinew::Communicator& group, Blas& blas,
            Replicated<T> replicated)
    : recompute_(recompute),
      invariant_(shape.part.invariant),
      up_(group, blas, shape.linear(fmt::format("blocks.{}.mlp.up", number), shape.whole.width, shape.whole.inner()),
          block_parameters(shape.whole, number).up, block_parameters(shape.whole, number).up + 1),
      down_(group, blas,
            shape.linear(fmt::format("blocks.{}.mlp.down", number), shape.whole.inner(), shape.whole.width),
            block_parameters(shape.whole, number).down, block_parameters(shape.whole, number).down + 1, replicated) {}

template <class T>
void Mlp<T>::inner(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch) {
  up_.forward(store, weights, a.normed2.data(), scratch.gathered.data(), a.up.data());
  bend(a);
}

template <class T>
void Mlp<T>::bend(const BlockActivations<T>& a) const {
  if (invariant_) return evenly(a.up.data(), a.bent.data(), a.up.size(), gelu<T>);
  gelu(a.up.data(), a.bent.data(), a.up.size());
}

template <class T>
void Mlp<T>::forward(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch,
                     T* out) {
  inner(store, weights, a, scratch);
  down_.forward(store, weights, a.bent.data(), scratch.other.data(), out);
}

template <class T>
void Mlp<T>::again(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch) {
  switch (recompute_) {
    case Recompute::None: return;
    case Recompute::Full: return inner(store, weights, a, scratch);
    case Recompute::Selective: bend(a);
  }
}

template <class T>
void Mlp<T>::backward(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch,
                      const T* d) {
  T *gathered = scratch.gathered.data(), *wide = scratch.wide.data();
  down_.backward(store, weights, a.bent.data(), d, gathered, wide);
  if (invariant_) {
    evenly(a.up.data(), wide, a.up.size(), gelu_backward<T>);
  } else {
    gelu_backward(a.up.data(), wide, a.up.size());
  }
  up_.backward(store, weights, a.normed2.data(), wide, gathered, scratch.other.data(), scratch.rows.data());
}

template class Mlp<float>;
template class Mlp<double>;

}  // namespace gpt
