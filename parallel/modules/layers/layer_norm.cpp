#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include <sinew/parallel/modules/layers/layer_norm.hpp>
#include <sinew/parallel/modules/layers/replicated_gradient.hpp>
#include <sinew/parallel/modules/vector_kernels.hpp>

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
  return kept_arrays() + most_of({shape_.width, shape_.width}, of_weight);
}

template <class T>
void LayerNormModule<T>::forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) {
  const auto weight = pass.values(weight_), bias = pass.values(bias_);
  const auto n = static_cast<std::size_t>(shape_.width);
  kept.arrays.push_back(pass.take(own_rows_));  // means
  kept.arrays.push_back(pass.take(own_rows_));  // 1 / deviations
  T *mean = kept.arrays[0].data(), *factor = kept.arrays[1].data();
  for (std::int64_t r = 0; r < own_rows_; ++r) {
    const T* row = x + r * shape_.width;
    mean[r] = kernels::sum(row, n) / static_cast<T>(shape_.width);
    const T variance = kernels::squares_around(mean[r], row, n) / static_cast<T>(shape_.width);
    factor[r] = 1 / std::sqrt(variance + static_cast<T>(shape_.epsilon));
    kernels::normalise(row, mean[r], factor[r], weight.data(), bias.data(), out + r * shape_.width, n);
  }
}

template <class T>
void LayerNormModule<T>::remake(Pass<T>& pass, const T* x, const Kept<T>& kept, T* out) {
  const auto weight = pass.values(weight_), bias = pass.values(bias_);
  const T *mean = kept.arrays[0].data(), *factor = kept.arrays[1].data();
  for (std::int64_t r = 0; r < own_rows_; ++r)
    kernels::normalise(x + r * shape_.width, mean[r], factor[r], weight.data(), bias.data(), out + r * shape_.width,
                       static_cast<std::size_t>(shape_.width));
}

template <class T>
void LayerNormModule<T>::input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) {
  if (dx == nullptr) return;
  const auto weight = pass.values(weight_);
  const auto n = static_cast<std::size_t>(shape_.width);
  const T *mean = kept.arrays[0].data(), *factor = kept.arrays[1].data();
  const PooledArray<T> even = pass.take(shape_.width), slope = pass.take(shape_.width);
  for (std::int64_t r = 0; r < own_rows_; ++r) {
    const T *row = x + r * shape_.width, *d = dout + r * shape_.width;
    for (std::size_t i = 0; i < n; ++i) {
      even.data()[i] = (row[i] - mean[r]) * factor[r];
      slope.data()[i] = d[i] * weight.data()[i];
    }
    const T slope_mean = kernels::sum(slope.data(), n) / static_cast<T>(shape_.width);
    const T along = kernels::dot(slope.data(), even.data(), n) / static_cast<T>(shape_.width);
    T* to = dx + r * shape_.width;
    for (std::size_t i = 0; i < n; ++i) to[i] = factor[r] * (slope.data()[i] - slope_mean - even.data()[i] * along);
  }
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
  const auto sum_of_rows = [&](std::int32_t parameter, const auto& element) {
    add_replicated_gradient<T>(pass, parameter, shape_.width, summed, [&](T* to) {
      std::fill_n(to, shape_.width, T{0});
      for (std::int64_t r = 0; r < own_rows_; ++r) {
        for (std::int64_t i = 0; i < shape_.width; ++i) to[i] += element(r, r * shape_.width + i);
      }
    });
  };
  sum_of_rows(weight_, [&](std::int64_t r, std::int64_t k) { return dout[k] * (x[k] - mean[r]) * factor[r]; });
  sum_of_rows(bias_, [&](std::int64_t, std::int64_t k) { return dout[k]; });
}

template class LayerNormModule<float>;
template class LayerNormModule<double>;

}  // namespace sinew::parallel
