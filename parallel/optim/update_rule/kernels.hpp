#pragma once

#include <cstddef>

namespace sinew::parallel {

/// One step of Adam for a run of elements, its constants worked out.
struct AdamStep {
  double beta1, beta2, epsilon;
  double rate;        ///< over 1 - beta1^t
  double root_scale;  ///< 1 / sqrt(1 - beta2^t)
  double keep;        ///< of the value: 1 - rate * decay, where decay is decoupled
  double decay;       ///< of the value, added to the gradient
  double scale;       ///< of the gradient
};

struct SgdStep {
  double rate, momentum, decay, scale;
  bool nesterov;
  bool first;  ///< there is no velocity yet
};

// Shape: all arrays have `count` elements, are disjoint, and may have any alignment. T: float or double.
template <class T>
void adam(T* value, const T* gradient, T* mean, T* square, std::size_t count, const AdamStep& step);
/// velocity: null without momentum.
template <class T>
void sgd(T* value, const T* gradient, T* velocity, std::size_t count, const SgdStep& step);

}  // namespace sinew::parallel
