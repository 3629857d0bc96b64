#include <cstddef>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/modules/compose.hpp>
#include <sinew/parallel/modules/vector_kernels.hpp>

namespace sinew::parallel {

template <class T>
Sequence<T>::Sequence(std::vector<ModulePtr<T>> modules) : modules_(std::move(modules)) {
  if (modules_.empty()) throw Error(Code::InvalidArgument, "modules: a sequence of no modules, expected 1 or more");
  for (std::size_t i = 1; i < modules_.size(); ++i) {
    if (modules_[i]->in_elements() != modules_[i - 1]->out_elements())
      throw Error(Code::InvalidArgument,
                  fmt::format("modules: number {} of a sequence takes {} elements, expected {}, as the one before it "
                              "makes them",
                              i, modules_[i]->in_elements(), modules_[i - 1]->out_elements()));
  }
}

template <class T>
void Sequence<T>::declare(ParameterList& list) {
  for (const ModulePtr<T>& module : modules_) module->declare(list);
}

template <class T>
void Sequence<T>::forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) {
  kept.parts.resize(modules_.size());
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    const bool is_last = i + 1 == modules_.size();
    if (!is_last) kept.arrays.push_back(pass.take(modules_[i]->out_elements()));
    T* const to = is_last ? out : kept.arrays[i].data();
    modules_[i]->forward(pass, x, kept.parts[i], to);
    x = to;
  }
}

template <class T>
void Sequence<T>::input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) {
  kept.gradients.resize(modules_.size() - 1);  // of the outputs between the modules
  for (std::size_t i = modules_.size(); i-- > 0;) {
    if (i > 0) kept.gradients[i - 1] = pass.take(modules_[i]->in_elements());
    modules_[i]->input_gradient(pass, i > 0 ? kept.arrays[i - 1].data() : x, kept.parts[i], dout,
                                i > 0 ? kept.gradients[i - 1].data() : dx);
    if (i > 0) dout = kept.gradients[i - 1].data();
  }
}

template <class T>
void Sequence<T>::weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) {
  for (std::size_t i = modules_.size(); i-- > 0;) {
    const T* const d = i + 1 == modules_.size() ? dout : kept.gradients[i].data();
    modules_[i]->weight_gradient(pass, i > 0 ? kept.arrays[i - 1].data() : x, kept.parts[i], d);
  }
  kept.gradients.clear();
}

template <class T>
void Sequence<T>::backward(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) {
  PooledArray<T> above;  // the gradient that `dout` points to
  for (std::size_t i = modules_.size(); i-- > 0;) {
    PooledArray<T> below = i > 0 ? pass.take(modules_[i]->in_elements()) : PooledArray<T>();
    modules_[i]->backward(pass, i > 0 ? kept.arrays[i - 1].data() : x, kept.parts[i], dout, i > 0 ? below.data() : dx);
    above = std::move(below);
    dout = above.data();
    kept.parts[i] = {};  // the arrays of this module serve those before it
    if (i > 0) kept.arrays.pop_back();
  }
}

template <class T>
Residual<T>::Residual(ModulePtr<T> module) : module_(std::move(module)) {
  if (module_->in_elements() != module_->out_elements())
    throw Error(Code::InvalidArgument,
                fmt::format("modules: a residual of a module that takes {} elements and makes {}, "
                            "expected equally many",
                            module_->in_elements(), module_->out_elements()));
}

template <class T>
void Residual<T>::forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) {
  kept.parts.resize(1);
  module_->forward(pass, x, kept.parts[0], out);
  kernels::add(out, x, static_cast<std::size_t>(out_elements()));
}

template <class T>
void Residual<T>::input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) {
  module_->input_gradient(pass, x, kept.parts[0], dout, dx);
  if (dx != nullptr) kernels::add(dx, dout, static_cast<std::size_t>(in_elements()));
}

template <class T>
void Residual<T>::weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) {
  module_->weight_gradient(pass, x, kept.parts[0], dout);
}

template <class T>
void Residual<T>::backward(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) {
  module_->backward(pass, x, kept.parts[0], dout, dx);
  if (dx != nullptr) kernels::add(dx, dout, static_cast<std::size_t>(in_elements()));
}

template <class T>
void Recomputed<T>::forward(Pass<T>& pass, const T* x, Kept<T>& /*kept*/, T* out) {
  Kept<T> unused;
  module_->forward(pass, x, unused, out);
}

template <class T>
void Recomputed<T>::make_again(Pass<T>& pass, const T* x, Kept<T>& kept) {
  kept.parts.resize(1);
  const PooledArray<T> out = pass.take(out_elements());
  const TokenLoss loss = pass.loss;  // which has the module's part already
  module_->forward(pass, x, kept.parts[0], out.data());
  pass.loss = loss;
}

template <class T>
void Recomputed<T>::input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) {
  make_again(pass, x, kept);
  module_->input_gradient(pass, x, kept.parts[0], dout, dx);
}

template <class T>
void Recomputed<T>::weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) {
  module_->weight_gradient(pass, x, kept.parts[0], dout);
  kept.parts.clear();
}

template <class T>
void Recomputed<T>::backward(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) {
  make_again(pass, x, kept);
  module_->backward(pass, x, kept.parts[0], dout, dx);
  kept.parts.clear();
}

template <class T>
void Unit<T>::declare(ParameterList& list) {
  const std::size_t dense = list.dense().parameters.size(), experts = list.experts().parameters.size();
  list.begin_unit(name_);
  module_->declare(list);
  list.end_unit();
  has_dense_ = list.dense().parameters.size() > dense;
  has_experts_ = list.experts().parameters.size() > experts;
}

template <class T>
void Unit<T>::forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) {
  pass.enter_forward(name_, has_dense_, has_experts_);
  module_->forward(pass, x, kept, out);
  pass.leave_forward(name_, has_dense_, has_experts_);
}

template <class T>
void Unit<T>::input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) {
  pass.enter_backward(name_, has_dense_, has_experts_);
  module_->input_gradient(pass, x, kept, dout, dx);
}

template <class T>
void Unit<T>::weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) {
  module_->weight_gradient(pass, x, kept, dout);
  pass.leave_backward(name_, has_dense_, has_experts_);
}

template <class T>
void Unit<T>::backward(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) {
  pass.enter_backward(name_, has_dense_, has_experts_);
  module_->backward(pass, x, kept, dout, dx);
  pass.leave_backward(name_, has_dense_, has_experts_);
}

template class Sequence<float>;
template class Sequence<double>;
template class Residual<float>;
template class Residual<double>;
template class Recomputed<float>;
template class Recomputed<double>;
template class Unit<float>;
template class Unit<double>;

}  // namespace sinew::parallel
