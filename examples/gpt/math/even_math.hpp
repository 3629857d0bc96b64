#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "vector_math.hpp"

namespace gpt {

/// f(x, y, n) of all elements in runs that are multiples of any vector, the last one filled up: what becomes of an
/// element does not depend on how many there are, as the last few of a loop over vectors are computed otherwise.
template <class T, class F>
void evenly(const T* x, T* y, std::size_t n, const F& f) {
  constexpr std::size_t kEven = 256;
  const std::size_t even = n / kEven * kEven;
  if (even > 0) f(x, y, even);
  if (even == n) return;
  std::array<T, kEven> in{}, out{};
  std::copy(x + even, x + n, in.begin());
  std::copy(y + even, y + n, out.begin());
  f(in.data(), out.data(), kEven);
  std::copy_n(out.begin(), n - even, y + even);
}

}  // namespace gpt
