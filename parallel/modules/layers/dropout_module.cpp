#include <type_traits>

#include <sinew/parallel/modules/layers/dropout_module.hpp>

namespace sinew::parallel {

template <class T>
void DropoutModule<T>::forward(Pass<T>& pass, const T* x, Kept<T>& /*kept*/, T* out) {
  if (out != x) pass.math().copy(x, out, in_elements());
  drop(pass, out);
}

template <class T>
void DropoutModule<T>::input_gradient(Pass<T>& pass, const T* /*x*/, Kept<T>& /*kept*/, const T* dout, T* dx) {
  if (dx == nullptr) return;
  pass.math().copy(dout, dx, in_elements());
  drop(pass, dx);
}

template <class T>
void DropoutModule<T>::drop(Pass<T>& pass, T* rows) {
  if (dropout_.probability() == 0) return;
  const auto options = dropout_.options(pass.batch.step, width_, pass.batch.first_sample * places_.length());
  pass.math().drop(options, placed_.of(pass.device(), numbers_), places_.own_rows(), width_, rows);
}

template <class T>
void RoundedModule<T>::forward(Pass<T>& pass, const T* x, Kept<T>& /*kept*/, T* out) {
  if (out != x) pass.math().copy(x, out, elements_);
  if (std::is_same_v<T, float> && dtype_ == DType::BF16) pass.math().round_to(dtype_, out, elements_);
}

template <class T>
void RoundedModule<T>::input_gradient(Pass<T>& pass, const T* /*x*/, Kept<T>& /*kept*/, const T* dout, T* dx) {
  if (dx != nullptr) pass.math().copy(dout, dx, elements_);
}

template class DropoutModule<float>;
template class DropoutModule<double>;
template class RoundedModule<float>;
template class RoundedModule<double>;

}  // namespace sinew::parallel
