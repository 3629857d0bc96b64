#pragma once

#include <cstdint>

namespace gpt {

/// Sum over rows of -log softmax(logits)[target]; logits become the softmax. Shape: [rows, vocabulary].
template <class T>
double cross_entropy(T* logits, const std::uint8_t* targets, int rows);
/// softmax becomes `scale` times the gradient of that sum.
template <class T>
void cross_entropy_backward(T* softmax, const std::uint8_t* targets, int rows, double scale);

}  // namespace gpt
