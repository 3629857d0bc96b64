#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <sinew/parallel/data_parallel/plan/step_plan.hpp>

namespace sinew::parallel::test {

/// A small network with a hand-written backward pass, whose parameters and gradients lie wherever they are told to:
/// y = W_L tanh(... tanh(W_0 x + b_0) ...) + b_L, loss = sum over the batch and outputs of (y - target)^2 / 2.
/// Layer i has the parameters 2i, its weights [width[i+1], width[i]], and 2i + 1, its biases.
template <class T>
class Mlp {
 public:
  explicit Mlp(std::vector<int> width) : width_(std::move(width)) {}

  int layers() const noexcept { return static_cast<int>(width_.size()) - 1; }
  int inputs() const noexcept { return width_.front(); }
  int outputs() const noexcept { return width_.back(); }
  /// A unit per layer.
  std::vector<DataParameter> parameters() const;
  /// The same on every rank: waves, no two parameters alike.
  std::vector<std::vector<T>> initial() const;

  /// What a pass asks for as it goes: memory, and to be told where it is.
  struct Hooks {
    std::function<T*(int parameter)> value, gradient;
    std::function<void(int layer)> before_forward = [](int) {}, after_forward = [](int) {},
                                   before_backward = [](int) {}, after_backward = [](int) {};
    std::function<void(int parameter)> gradient_ready = [](int) {};
  };

  /// Adds the gradients of `scale` times the loss of these samples to what is there; returns scale times the loss.
  double pass(std::span<const T> x, std::span<const T> target, T scale, const Hooks& hooks) const;

 private:
  std::vector<int> width_;
};

extern template class Mlp<float>;
extern template class Mlp<double>;

/// Inputs and targets of a sample, from its number: the data set does not depend on who reads it.
template <class T>
void sample(std::int64_t number, std::span<T> x, std::span<T> target);
extern template void sample(std::int64_t, std::span<float>, std::span<float>);
extern template void sample(std::int64_t, std::span<double>, std::span<double>);

}  // namespace sinew::parallel::test
