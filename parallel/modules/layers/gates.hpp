#pragma once

#include <algorithm>
#include <cmath>

// Functions of one number that layers with gates use. T: float or double.
namespace sinew::parallel {

template <class T>
T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}
/// x * sigmoid(x).
/// Source: Elfwing et al., arXiv 1702.03118.
template <class T>
T silu(T x) {
  return x * sigmoid(x);
}
/// The slope of silu at x.
template <class T>
T silu_slope(T x) {
  const T s = sigmoid(x);
  return s * (1 + x * (1 - s));
}
/// log(1 + exp(x)). Its slope is sigmoid(x).
template <class T>
T softplus(T x) {
  return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
}

}  // namespace sinew::parallel
