#include <cstddef>
#include <utility>

#include <sinew/parallel/modules/layers/layer_norm.hpp>
#include <sinew/parallel/modules/layers/replicated_gradient.hpp>

namespace sinew::parallel {

template <class T>
LayerNormModule<T>::LayerNormModule(const LayerGroup& group, const LayerNormShape& shape)
    : shape_(shape), group_(group), own_rows_(group.own_rows(shape.rows)) {}

template <class T>
void LayerNormModule<T>::declare(ParameterList& list) {
  weight_ = list.add(whole_parameter(list.like(), shape_.name + ".weight", {shape_.width}), all_equal_to(1));
  bias_ = list.add(whole_parameter(list.like(), shape_.name + ".bias", {shape_.width}), all_equal_to(0));
}

template <class T>
ArrayCounts LayerNormModule<T>::backward_arrays() const {
  ArrayCounts of_weight{shape_.width};
  if (group_.invariant) of_weight = {in_elements(), group_.sequence_parallel ? shape_.rows * shape_.width : 0};
  return kept_arrays() + of_weight;
}

template <class T>
void LayerNormModule<T>::forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) {
  const auto weight = pass.values(weight_), bias = pass.values(bias_);
  kept.arrays.push_back(pass.take(own_rows_));  // means
  kept.arrays.push_back(pass.take(own_rows_));  // 1 / deviations
  pass.math().normalise(x, weight.data(), bias.data(), own_rows_, shape_.width, static_cast<T>(shape_.epsilon),
                        kept.arrays[0].data(), kept.arrays[1].data(), out);
}

template <class T>
void LayerNormModule<T>::remake(Pass<T>& pass, const T* x, const Kept<T>& kept, T* out) {
  const auto weight = pass.values(weight_), bias = pass.values(bias_);
  pass.math().renormalise(x, kept.arrays[0].data(), kept.arrays[1].data(), weight.data(), bias.data(), own_rows_,
                          shape_.width, out);
}

template <class T>
void LayerNormModule<T>::input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) {
  if (dx == nullptr) return;
  const auto weight = pass.values(weight_);
  pass.math().normalise_input_gradient(x, kept.arrays[0].data(), kept.arrays[1].data(), weight.data(), dout, own_rows_,
                                       shape_.width, dx);
}

template <class T>
void LayerNormModule<T>::weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) {
  const T *mean = kept.arrays[0].data(), *factor = kept.arrays[1].data();
  Communicator* const summed = group_.sequence_parallel ? &*group_.tensor : nullptr;
  if (pass.by_sample != nullptr) {
    const PooledArray<T> slopes = pass.take(in_elements());  // of the weight, by row
    for (std::int64_t r = 0; r < own_rows_; ++r) {
      for (std::int64_t k = r * shape_.width; k < (r + 1) * shape_.width; ++k)
        slopes.data()[k] = dout[k] * ((x[k] - mean[r]) * factor[r]);
    }
    for (const auto& [parameter, own] : {std::pair<std::int32_t, const T*>(weight_, slopes.data()), {bias_, dout}})
      add_sample_rows(pass, parameter, all_rows_of(pass, summed, own, shape_.rows, shape_.width).data, shape_.width);
    return;
  }
  add_replicated_gradient<T>(pass, weight_, shape_.width, summed, [&](T* to) {
    pass.math().normalise_weight_gradient(x, mean, factor, dout, own_rows_, shape_.width, to);
  });
  add_replicated_gradient<T>(pass, bias_, shape_.width, summed, [&](T* to) {
    pass.math().sum_rows(dout, own_rows_, shape_.width, shape_.width, T{0}, to);
  });
}

template class LayerNormModule<float>;
template class LayerNormModule<double>;

}  // namespace sinew::parallel
