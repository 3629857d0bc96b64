#include "linear.hpp"

#include <cstddef>
#include <span>

namespace gpt {

template <class T>
void Columns<T>::forward(Store& store, Weights<T>& weights, const T* x, T* whole, T* out) {
  std::vector<T> room(bias_ < 0 ? 0 : static_cast<std::size_t>(layer_.outputs()));
  const T* offset = bias_ < 0 ? nullptr : weights.vector(store, bias_, room);
  layer_.forward(x, weights.matrix(store, weight_), offset, whole, out);
}

template <class T>
void Columns<T>::backward(Store& store, Weights<T>& weights, const T* x, const T* dout, T* whole, T* partial, T* dx) {
  if (shape_.sequence_parallel) layer_.gather(x, whole).get();
  auto under_way = layer_.input_gradient(dout, weights.matrix(store, weight_), partial, dx);
  const auto outputs = static_cast<std::size_t>(layer_.outputs());
  if (bias_ >= 0) {
    weights.add_gradient(store, bias_, outputs, [&](T* to, T beta) { layer_.bias_gradient(dout, beta, to); });
    store.gradient_ready(bias_);
  }
  weights.add_gradient(store, weight_, outputs * static_cast<std::size_t>(shape_.inputs), [&](T* to, T beta) {
    layer_.weight_gradient(shape_.sequence_parallel ? whole : x, dout, beta, to);
  });
  store.gradient_ready(weight_);
  under_way.get();
}

template <class T>
void RowsOf<T>::forward(Store& store, Weights<T>& weights, const T* x, T* partial, T* out) {
  std::vector<T> room(static_cast<std::size_t>(shape_.outputs));
  const T* offset = weights.vector(store, bias_, room);
  layer_.forward(x, weights.matrix(store, weight_), offset, partial, out);
}

template <class T>
void RowsOf<T>::backward(Store& store, Weights<T>& weights, const T* x, const T* dout, T* whole, T* dx) {
  const T* all = layer_.gather(dout, whole);
  std::vector<T> for_bias(static_cast<std::size_t>(shape_.outputs));
  layer_.bias_gradient(dout, T{0}, for_bias.data());
  replicated_.sum(for_bias);
  replicated_.report(store, weights, bias_, for_bias);
  const auto elements = static_cast<std::size_t>(shape_.outputs * layer_.inputs());
  weights.add_gradient(store, weight_, elements, [&](T* to, T beta) { layer_.weight_gradient(all, x, beta, to); });
  store.gradient_ready(weight_);
  layer_.input_gradient(all, weights.matrix(store, weight_), dx);
}

template class Columns<float>;
template class Columns<double>;
template class RowsOf<float>;
template class RowsOf<double>;

}  // namespace gpt
