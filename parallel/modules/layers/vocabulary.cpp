#include <algorithm>

#include <sinew/parallel/modules/layers/vocabulary.hpp>

namespace sinew::parallel {

template <class T>
EmbeddingModule<T>::EmbeddingModule(const LayerGroup& group, const EmbeddingShape& shape, double deviation)
    : shape_(group.with_rows(shape)), deviation_(deviation), layer_(group.tensor, "tp", shape_) {}

template <class T>
void EmbeddingModule<T>::declare(ParameterList& list) {
  table_ = list.add(layer_.parameter(list.like()), normally_distributed(deviation_));
}

template <class T>
PooledArray<T> EmbeddingModule<T>::room(Pass<T>& pass) const {
  return pass.take(shape_.rows * shape_.width);
}

template <class T>
void EmbeddingModule<T>::forward(Pass<T>& pass, const T* /*x*/, Kept<T>& /*kept*/, T* out) {
  const auto table = pass.values(table_);
  layer_.forward(pass.batch.tokens, table.data(), room(pass).data(), out);
}

template <class T>
void EmbeddingModule<T>::input_gradient(Pass<T>& /*pass*/, const T* /*x*/, Kept<T>& /*kept*/, const T* /*dout*/,
                                        T* /*dx*/) {}

template <class T>
void EmbeddingModule<T>::weight_gradient(Pass<T>& pass, const T* /*x*/, Kept<T>& /*kept*/, const T* dout) {
  pass.add_gradient(table_,
                    [&](T* to, T beta) { layer_.backward(pass.batch.tokens, dout, room(pass).data(), beta, to); });
  pass.ready(table_);
}

template <class T>
PredictionModule<T>::PredictionModule(const LayerGroup& group, const CrossEntropyShape& shape)
    : shape_(shape), loss_(group.tensor, "tp", shape) {}

template <class T>
void PredictionModule<T>::forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* /*out*/) {
  kept.arrays.push_back(pass.take(in_elements()));
  std::copy_n(x, in_elements(), kept.arrays[0].data());
  const TokenLoss loss = loss_.forward(kept.arrays[0].data(), pass.batch.targets);
  pass.loss.sum += loss.sum;
  pass.loss.tokens += loss.tokens;
}

template <class T>
void PredictionModule<T>::input_gradient(Pass<T>& pass, const T* /*x*/, Kept<T>& kept, const T* /*dout*/, T* dx) {
  if (dx == nullptr) return;
  std::copy_n(kept.arrays[0].data(), in_elements(), dx);
  loss_.backward(dx, pass.batch.targets, pass.loss_scale);
}

template class EmbeddingModule<float>;
template class EmbeddingModule<double>;
template class PredictionModule<float>;
template class PredictionModule<double>;

}  // namespace sinew::parallel
