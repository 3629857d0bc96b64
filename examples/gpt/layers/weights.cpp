#include "weights.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

#include "../math/vector_math.hpp"

namespace gpt {

template <class T>
const T* Weights<T>::values(Store& store, int p, std::span<T> into) {
  const sinew::Buffer held = store.parameter(p);
  if (is_wide(parameter_)) return reinterpret_cast<const T*>(held.data);
  if constexpr (std::is_same_v<T, float>)
    widen(reinterpret_cast<const sinew::BFloat16*>(held.data), into.data(), held.bytes / sizeof(sinew::BFloat16));
  return into.data();
}

template <class T>
void Weights<T>::add_narrow(Store& store, int p, std::span<T> gradient) {
  if constexpr (std::is_same_v<T, float>) {
    constexpr std::size_t kPiece = 1024;  // stays in the first cache
    std::array<float, kPiece> sums;
    auto* held = reinterpret_cast<sinew::BFloat16*>(store.gradient(p).data);
    for (std::size_t at = 0; at < gradient.size(); at += kPiece) {
      const std::size_t n = std::min(kPiece, gradient.size() - at);
      widen(held + at, sums.data(), n);
      add(sums.data(), gradient.data() + at, n);
      narrow(sums.data(), held + at, n);
    }
  }
}

template class Weights<float>;
template class Weights<double>;

}  // namespace gpt
