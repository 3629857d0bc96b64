#include "layer_norm.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "../math/vector_math.hpp"

namespace gpt {

namespace {
constexpr double kEpsilon = 1e-5;
}

template <class T>
void LayerNorm<T>::forward(Store& store, Weights<T>& weights, int rows, const T* x, T* mean, T* factor, T* out) const {
  const auto n = static_cast<std::size_t>(width);
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
    mean[r] = sum(x + r * n, n) / static_cast<T>(width);
    const T variance = squares_around(mean[r], x + r * n, n) / static_cast<T>(width);
    factor[r] = 1 / std::sqrt(variance + static_cast<T>(kEpsilon));
  }
  again(store, weights, rows, x, mean, factor, out);
}

template <class T>
void LayerNorm<T>::again(Store& store, Weights<T>& weights, int rows, const T* x, const T* mean, const T* factor,
                         T* out) const {
  const auto n = static_cast<std::size_t>(width);
  std::vector<T> room(2 * n);
  const T* scale = weights.vector(store, weight, std::span(room).first(n));
  const T* offset = weights.vector(store, bias, std::span(room).last(n));
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r)
    normalise(x + r * n, mean[r], factor[r], scale, offset, out + r * n, n);
}

template <class T>
void LayerNorm<T>::backward(Store& store, Weights<T>& weights, int rows, const T* x, const T* mean, const T* factor,
                            const T* dout, T* dx) const {
  const auto n = static_cast<std::size_t>(width);
  std::vector<T> room(5 * n);  // sums for weight and bias, weight, a row, its slope
  T *for_weight = room.data(), *for_bias = for_weight + n, *even = room.data() + 3 * n, *slope = even + n;
  const T* scale = weights.vector(store, weight, std::span(room).subspan(2 * n, n));
  std::vector<T> slopes(weights.by_sample != nullptr ? static_cast<std::size_t>(rows) * n : 0);  // for the weight
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
    const T *row = x + r * n, *d = dout + r * n;
    for (std::size_t i = 0; i < n; ++i) {
      even[i] = (row[i] - mean[r]) * factor[r];
      slope[i] = d[i] * scale[i];
      for_weight[i] += d[i] * even[i];
      for_bias[i] += d[i];
    }
    if (weights.by_sample != nullptr) {
      for (std::size_t i = 0; i < n; ++i) slopes[r * n + i] = d[i] * even[i];
    }
    const T slope_mean = sum(slope, n) / static_cast<T>(width);
    const T along = dot(slope, even, n) / static_cast<T>(width);
    for (std::size_t i = 0; i < n; ++i) dx[r * n + i] += factor[r] * (slope[i] - slope_mean - even[i] * along);
  }
  if (weights.by_sample != nullptr) {
    SampleSums<T>& sums = *weights.by_sample;
    const auto add_rows = [&](int p, const T* own) {
      std::vector<T> all;
      const T* from = replicated.whole(own, sums.pass_rows(), width, all);
      sums.add(store, p, width, [&](std::int64_t row, T* to) { sums.sum_rows(from + row * width, width, width, to); });
    };
    add_rows(weight, slopes.data());
    add_rows(bias, dout);
    return;
  }
  replicated.sum(std::span(room).first(2 * n));
  replicated.report(store, weights, weight, {for_weight, n});
  replicated.report(store, weights, bias, {for_bias, n});
}

template struct LayerNorm<float>;
template struct LayerNorm<double>;

}  // namespace gpt
