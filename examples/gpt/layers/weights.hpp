#pragma once

#include <cstddef>
#include <span>

#include <sinew/core/dtype.hpp>

#include "../model/store.hpp"
#include "deferral.hpp"
#include "sample_sums.hpp"

namespace gpt {

/// Parameters of a store as what is computed in, and gradients that are added to what the store has.
/// T: float (of f32 or bf16), double (of f64).
template <class T>
class Weights {
 public:
  /// `room`: for the largest parameter twice, where the store's are not T.
  Weights(sinew::DType parameter, sinew::DType gradient, std::span<T> room) noexcept
      : parameter_(parameter), gradient_(gradient), room_(room) {}

  /// Where gradients of matrices wait to be made; null: they are made at once.
  Deferral<T>* later = nullptr;
  /// Where gradients are added up sample by sample, in layout-invariant order; null: as they come.
  SampleSums<T>* by_sample = nullptr;

  /// Elements that are held in `room` for a largest parameter of so many.
  static std::size_t room_for(sinew::DType parameter, sinew::DType gradient, std::size_t largest) noexcept {
    return is_wide(parameter) && is_wide(gradient) ? 0 : 2 * largest;
  }

  /// Of a matrix; there until the next one is asked for.
  const T* matrix(Store& store, int p) { return values(store, p, room_.first(room_.size() / 2)); }
  /// Of a vector, `into` has room for it.
  const T* vector(Store& store, int p, std::span<T> into) { return values(store, p, into); }
  /// f(to, beta): writes the gradient of n elements, beta times what is there added. Narrow gradients are rounded here,
  /// at each addition.
  template <class F>
  void add_gradient(Store& store, int p, std::size_t n, const F& f) {
    if (is_wide(gradient_)) {
      f(reinterpret_cast<T*>(store.gradient(p).data), T{1});
      return;
    }
    const std::span<T> room = room_.last(room_.size() / 2);
    f(room.data(), T{0});
    add_narrow(store, p, room.first(n));
  }

 private:
  static bool is_wide(sinew::DType dtype) noexcept { return size_of(dtype) == sizeof(T); }
  const T* values(Store& store, int p, std::span<T> into);
  void add_narrow(Store& store, int p, std::span<T> gradient);

  sinew::DType parameter_, gradient_;
  std::span<T> room_;
};

extern template class Weights<float>;
extern template class Weights<double>;

}  // namespace gpt
