#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>

#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/modules/layers/dropout_module.hpp>
#include <sinew/parallel/modules/vector_kernels.hpp>

namespace sinew::parallel {

template <class T>
void DropoutModule<T>::forward(Pass<T>& pass, const T* x, Kept<T>& /*kept*/, T* out) {
  if (out != x) std::copy_n(x, in_elements(), out);
  places_.drop(dropout_, width_, pass.batch.step, pass.batch.first_sample, out);
}

template <class T>
void DropoutModule<T>::input_gradient(Pass<T>& pass, const T* /*x*/, Kept<T>& /*kept*/, const T* dout, T* dx) {
  if (dx == nullptr) return;
  std::copy_n(dout, in_elements(), dx);
  places_.drop(dropout_, width_, pass.batch.step, pass.batch.first_sample, dx);
}

template <class T>
void RoundedModule<T>::forward(Pass<T>& /*pass*/, const T* x, Kept<T>& /*kept*/, T* out) {
  if (out != x) std::copy_n(x, elements_, out);
  if constexpr (std::is_same_v<T, float>) {
    if (dtype_ != DType::BF16) return;
    std::array<BFloat16, 1024> rounded;
    const auto all = static_cast<std::size_t>(elements_);
    for (std::size_t i = 0; i < all; i += rounded.size()) {
      const std::size_t n = std::min(rounded.size(), all - i);
      kernels::narrow(out + i, rounded.data(), n);
      kernels::widen(rounded.data(), out + i, n);
    }
  }
}

template <class T>
void RoundedModule<T>::input_gradient(Pass<T>& /*pass*/, const T* /*x*/, Kept<T>& /*kept*/, const T* dout, T* dx) {
  if (dx != nullptr) std::copy_n(dout, elements_, dx);
}

template class DropoutModule<float>;
template class DropoutModule<double>;
template class RoundedModule<float>;
template class RoundedModule<double>;

}  // namespace sinew::parallel
