#include "cross_entropy.hpp"

#include <cmath>
#include <cstddef>

#include "../math/vector_math.hpp"
#include "../shape.hpp"

namespace gpt {

template <class T>
double cross_entropy(T* logits, const std::uint8_t* targets, int rows) {
  double loss = 0;
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
    T* row = logits + r * kVocabulary;
    const T of_target = row[targets[r]];
    T largest;
    const T total = exponentials(row, row, kVocabulary, &largest);
    scale(row, 1 / total, kVocabulary);
    loss += std::log(static_cast<double>(total)) - static_cast<double>(of_target - largest);
  }
  return loss;
}

template <class T>
void cross_entropy_backward(T* softmax, const std::uint8_t* targets, int rows, double by) {
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
    T* row = softmax + r * kVocabulary;
    row[targets[r]] -= 1;
    scale(row, static_cast<T>(by), kVocabulary);
  }
}

template double cross_entropy(float*, const std::uint8_t*, int);
template double cross_entropy(double*, const std::uint8_t*, int);
template void cross_entropy_backward(float*, const std::uint8_t*, int, double);
template void cross_entropy_backward(double*, const std::uint8_t*, int, double);

}  // namespace gpt
