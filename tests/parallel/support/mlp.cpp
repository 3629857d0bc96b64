#include "mlp.hpp"

#include <cmath>
#include <string>

#include <fmt/format.h>

namespace sinew::parallel::test {

template <class T>
std::vector<DataParameter> Mlp<T>::parameters() const {
  std::vector<DataParameter> all;
  for (int i = 0; i < layers(); ++i) {
    const std::string unit = fmt::format("layers.{}", i);
    const auto l = static_cast<std::size_t>(i);
    all.push_back({.path = unit + ".weight",
                   .dtype = kDTypeOf<T>,
                   .elements = std::int64_t{width_[l + 1]} * width_[l],
                   .unit = unit});
    all.push_back({.path = unit + ".bias", .dtype = kDTypeOf<T>, .elements = width_[l + 1], .unit = unit});
  }
  return all;
}

template <class T>
std::vector<std::vector<T>> Mlp<T>::initial() const {
  std::vector<std::vector<T>> values;
  double phase = 0.3;
  for (const DataParameter& p : parameters()) {
    std::vector<T> v(static_cast<std::size_t>(p.elements));
    for (T& x : v) x = static_cast<T>(0.5 * std::sin(phase += 0.7));
    values.push_back(std::move(v));
  }
  return values;
}

template <class T>
double Mlp<T>::pass(std::span<const T> x, std::span<const T> target, T scale, const Hooks& hooks) const {
  const std::size_t batch = x.size() / static_cast<std::size_t>(inputs());
  std::vector<std::vector<T>> active{{x.begin(), x.end()}};
  for (int i = 0; i < layers(); ++i) {
    hooks.before_forward(i);
    const T* w = hooks.value(2 * i);
    const T* bias = hooks.value(2 * i + 1);
    const auto in = static_cast<std::size_t>(width_[static_cast<std::size_t>(i)]);
    const auto out = static_cast<std::size_t>(width_[static_cast<std::size_t>(i) + 1]);
    std::vector<T> y(batch * out);
    for (std::size_t s = 0; s < batch; ++s) {
      for (std::size_t o = 0; o < out; ++o) {
        T sum = bias[o];
        for (std::size_t k = 0; k < in; ++k) sum += w[o * in + k] * active.back()[s * in + k];
        y[s * out + o] = i + 1 < layers() ? std::tanh(sum) : sum;
      }
    }
    active.push_back(std::move(y));
    hooks.after_forward(i);
  }
  double loss = 0;
  std::vector<T> slope(active.back().size());
  for (std::size_t k = 0; k < slope.size(); ++k) {
    const T off = active.back()[k] - target[k];
    loss += 0.5 * static_cast<double>(scale) * static_cast<double>(off) * static_cast<double>(off);
    slope[k] = scale * off;
  }
  for (int i = layers(); i-- > 0;) {
    hooks.before_backward(i);
    const T* w = hooks.value(2 * i);
    T* dw = hooks.gradient(2 * i);
    T* dbias = hooks.gradient(2 * i + 1);
    const auto in = static_cast<std::size_t>(width_[static_cast<std::size_t>(i)]);
    const auto out = static_cast<std::size_t>(width_[static_cast<std::size_t>(i) + 1]);
    const std::vector<T>& below = active[static_cast<std::size_t>(i)];
    std::vector<T> down(batch * in);
    for (std::size_t s = 0; s < batch; ++s) {
      for (std::size_t o = 0; o < out; ++o) {
        const T d = slope[s * out + o];
        dbias[o] += d;
        for (std::size_t k = 0; k < in; ++k) {
          dw[o * in + k] += d * below[s * in + k];
          down[s * in + k] += d * w[o * in + k];
        }
      }
    }
    hooks.gradient_ready(2 * i + 1);
    hooks.gradient_ready(2 * i);
    hooks.after_backward(i);
    if (i > 0) {
      for (std::size_t k = 0; k < down.size(); ++k) down[k] *= 1 - below[k] * below[k];
    }
    slope = std::move(down);
  }
  return loss;
}

template <class T>
void sample(std::int64_t number, std::span<T> x, std::span<T> target) {
  for (std::size_t k = 0; k < x.size(); ++k)
    x[k] = static_cast<T>(std::sin(0.37 * static_cast<double>(number) + 1.3 * static_cast<double>(k)));
  for (std::size_t k = 0; k < target.size(); ++k)
    target[k] = static_cast<T>(std::cos(0.11 * static_cast<double>(number) + 0.9 * static_cast<double>(k)));
}

template class Mlp<float>;
template class Mlp<double>;
template void sample(std::int64_t, std::span<float>, std::span<float>);
template void sample(std::int64_t, std::span<double>, std::span<double>);

}  // namespace sinew::parallel::test
