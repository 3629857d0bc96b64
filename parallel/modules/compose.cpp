#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/modules/compose.hpp>

namespace sinew::parallel {

template <class T>
Sequence<T>::Sequence(std::vector<ModulePtr<T>> modules) : modules_(std::move(modules)) {
  if (modules_.empty()) throw Error(Code::InvalidArgument, "modules: a sequence of no modules, expected 1 or more");
  const auto label = [this](std::size_t i) {
    const std::string_view name = modules_[i]->name();
    return name.empty() ? fmt::format("number {}", i) : fmt::format("number {} ('{}')", i, name);
  };
  for (std::size_t i = 1; i < modules_.size(); ++i) {
    if (modules_[i]->in_elements() != modules_[i - 1]->out_elements())
      throw Error(Code::InvalidArgument,
                  fmt::format("modules: {} of a sequence takes {} elements, expected {}, as {} makes them", label(i),
                              modules_[i]->in_elements(), modules_[i - 1]->out_elements(), label(i - 1)));
  }
}

/// Says for each output between the modules whether it is kept.
template <class T>
std::vector<bool> Sequence<T>::kept_outputs() const {
  std::vector<bool> kept(modules_.size() - 1);
  bool is_there = true;  // the output before is kept, or can be made again
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const bool is_remade = drops_ && is_there && modules_[i]->can_remake();
    kept[i] = modules_[i + 1]->needs_input() && !is_remade;
    is_there = kept[i] || is_remade;
  }
  return kept;
}

template <class T>
ArrayCounts Sequence<T>::kept_arrays() const {
  const std::vector<bool> kept = kept_outputs();
  ArrayCounts all = modules_.back()->kept_arrays();
  for (std::size_t i = 0; i < kept.size(); ++i) {
    all += modules_[i]->kept_arrays();
    if (kept[i]) all += output_array(i);
  }
  return all;
}

template <class T>
ArrayCounts Sequence<T>::deferred_arrays() const {
  ArrayCounts all;
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    all += modules_[i]->deferred_arrays();
    if (i > 0) all += output_array(i - 1);  // its gradient
  }
  return all;
}

/// Follows forward(), which takes the arrays and gives them back in this order.
template <class T>
ArrayCounts Sequence<T>::forward_arrays(bool keeps) const {
  const std::vector<bool> stays = kept_outputs();
  ArrayCounts here, most;
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    if (i + 1 < modules_.size()) here += output_array(i);
    most.raise_to(here + modules_[i]->forward_arrays(keeps));
    if (keeps) here += modules_[i]->kept_arrays();
    if (i > 0 && !(keeps && stays[i - 1])) here -= output_array(i - 1);
  }
  return most;
}

/// Adds the outputs that input_of() makes again for module i.
template <class T>
void Sequence<T>::add_remade(std::size_t i, std::vector<bool>& there, ArrayCounts& here) const {
  if (!modules_[i]->needs_input()) return;
  for (std::size_t j = i; j > 0 && !there[j - 1]; --j) {
    here += output_array(j - 1);
    there[j - 1] = true;
  }
}

/// Follows backward() in the same way.
template <class T>
ArrayCounts Sequence<T>::backward_arrays() const {
  std::vector<bool> there = kept_outputs();
  ArrayCounts here = kept_arrays(), most;
  for (std::size_t i = modules_.size(); i-- > 0;) {
    const Module<T>& module = *modules_[i];
    add_remade(i, there, here);
    if (i > 0) here += output_array(i - 1);  // the gradient below
    here -= module.kept_arrays();
    most.raise_to(here + module.backward_arrays());
    if (i + 1 < modules_.size()) here -= output_array(i);  // the gradient above
    if (i > 0 && there[i - 1]) here -= output_array(i - 1);
  }
  return most;
}

/// Follows input_gradient() in the same way.
template <class T>
ArrayCounts Sequence<T>::first_half_arrays() const {
  const std::vector<bool> stays = kept_outputs();
  std::vector<bool> there = stays;
  ArrayCounts here = kept_arrays(), most;
  for (std::size_t i = modules_.size(); i-- > 0;) {
    const Module<T>& module = *modules_[i];
    add_remade(i, there, here);
    if (i > 0) here += output_array(i - 1);  // its gradient
    most.raise_to(here - module.kept_arrays() + module.first_half_arrays());
    here += module.deferred_arrays();
    if (i > 0 && there[i - 1] && !stays[i - 1]) here -= output_array(i - 1);
  }
  return most;
}

/// Follows weight_gradient() in the same way. Outputs that are not kept are made again in this half too.
template <class T>
ArrayCounts Sequence<T>::second_half_arrays() const {
  std::vector<bool> there = kept_outputs();
  ArrayCounts here = kept_arrays() + deferred_arrays(), most;
  for (std::size_t i = modules_.size(); i-- > 0;) {
    const Module<T>& module = *modules_[i];
    add_remade(i, there, here);
    most.raise_to(here - module.kept_arrays() - module.deferred_arrays() + module.second_half_arrays());
    here -= module.deferred_arrays();
    if (i > 0 && there[i - 1]) here -= output_array(i - 1);
  }
  return most;
}

/// Outputs that are made again need the sequence's input, if all outputs before them are made again, too.
template <class T>
bool Sequence<T>::needs_input() const {
  if (modules_.front()->needs_input()) return true;
  for (std::size_t i = 1; drops_ && i < modules_.size() && modules_[i - 1]->can_remake(); ++i) {
    if (modules_[i]->needs_input()) return true;
  }
  return false;
}

template <class T>
bool Sequence<T>::can_remake() const {
  return std::ranges::all_of(modules_, [](const ModulePtr<T>& module) { return module->can_remake(); });
}

template <class T>
void Sequence<T>::remake(Pass<T>& pass, const T* x, const Kept<T>& kept, T* out) {
  PooledArray<T> before;
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    const bool is_last = i + 1 == modules_.size();
    PooledArray<T> made = pass.take(is_last ? 0 : modules_[i]->out_elements());
    modules_[i]->remake(pass, x, kept.parts[i], is_last ? out : made.data());
    before = std::move(made);
    x = before.data();
  }
}

template <class T>
void Sequence<T>::declare(ParameterList& list) {
  for (const ModulePtr<T>& module : modules_) module->declare(list);
}

template <class T>
void Sequence<T>::forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) {
  const std::vector<bool> stays = kept_outputs();
  kept.arrays.resize(stays.size());
  kept.parts.resize(modules_.size());
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    const bool is_last = i + 1 == modules_.size();
    if (!is_last) kept.arrays[i] = pass.take(modules_[i]->out_elements());
    T* const to = is_last ? out : kept.arrays[i].data();
    modules_[i]->forward(pass, x, kept.parts[i], to);
    x = to;
    if (i > 0 && !(pass.keeps && stays[i - 1])) kept.arrays[i - 1] = {};
    if (!pass.keeps) kept.parts[i] = {};
  }
}

/// Output i, which is made again if it was not kept.
template <class T>
const T* Sequence<T>::output(Pass<T>& pass, const T* x, Kept<T>& kept, std::size_t i) {
  PooledArray<T>& array = kept.arrays[i];
  if (array.size() == 0 && modules_[i]->out_elements() > 0) {
    if (i > 0) x = output(pass, x, kept, i - 1);
    array = pass.take(modules_[i]->out_elements());
    modules_[i]->remake(pass, x, kept.parts[i], array.data());
  }
  return array.data();
}

template <class T>
const T* Sequence<T>::input_of(Pass<T>& pass, const T* x, Kept<T>& kept, std::size_t i) {
  if (i == 0) return x;
  return modules_[i]->needs_input() ? output(pass, x, kept, i - 1) : nullptr;
}

template <class T>
void Sequence<T>::input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) {
  const std::vector<bool> stays = kept_outputs();
  kept.gradients.resize(stays.size());  // of the outputs between the modules
  for (std::size_t i = modules_.size(); i-- > 0;) {
    const T* const in = input_of(pass, x, kept, i);
    if (i > 0) kept.gradients[i - 1] = pass.take(modules_[i]->in_elements());
    modules_[i]->input_gradient(pass, in, kept.parts[i], dout, i > 0 ? kept.gradients[i - 1].data() : dx);
    if (i == 0) break;
    dout = kept.gradients[i - 1].data();
    if (!stays[i - 1]) kept.arrays[i - 1] = {};
  }
}

template <class T>
void Sequence<T>::weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) {
  for (std::size_t i = modules_.size(); i-- > 0;) {
    const T* const d = i + 1 == modules_.size() ? dout : kept.gradients[i].data();
    modules_[i]->weight_gradient(pass, input_of(pass, x, kept, i), kept.parts[i], d);
    if (i > 0) kept.arrays[i - 1] = {};
  }
  kept.gradients.clear();
}

template <class T>
void Sequence<T>::backward(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) {
  PooledArray<T> above;  // the gradient that `dout` points to
  for (std::size_t i = modules_.size(); i-- > 0;) {
    const T* const in = input_of(pass, x, kept, i);
    PooledArray<T> below = i > 0 ? pass.take(modules_[i]->in_elements()) : PooledArray<T>();
    modules_[i]->backward(pass, in, kept.parts[i], dout, i > 0 ? below.data() : dx);
    above = std::move(below);
    dout = above.data();
    kept.parts[i] = {};  // the arrays of this module serve those before it
    if (i > 0) kept.arrays[i - 1] = {};
  }
}

template <class T>
Residual<T>::Residual(ModulePtr<T> module) : Wrapper<T>(std::move(module)) {
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
  pass.math().add(x, T{1}, out, this->out_elements());
}

template <class T>
void Residual<T>::remake(Pass<T>& pass, const T* x, const Kept<T>& kept, T* out) {
  module_->remake(pass, x, kept.parts[0], out);
  pass.math().add(x, T{1}, out, this->out_elements());
}

template <class T>
void Residual<T>::input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) {
  module_->input_gradient(pass, x, kept.parts[0], dout, dx);
  if (dx != nullptr) pass.math().add(dout, T{1}, dx, this->in_elements());
}

template <class T>
void Residual<T>::weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) {
  module_->weight_gradient(pass, x, kept.parts[0], dout);
}

template <class T>
void Residual<T>::backward(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) {
  module_->backward(pass, x, kept.parts[0], dout, dx);
  if (dx != nullptr) pass.math().add(dout, T{1}, dx, this->in_elements());
}

template <class T>
void Recomputed<T>::forward(Pass<T>& pass, const T* x, Kept<T>& /*kept*/, T* out) {
  Kept<T> unused;
  const bool keeps = std::exchange(pass.keeps, false);
  module_->forward(pass, x, unused, out);
  pass.keeps = keeps;
}

template <class T>
void Recomputed<T>::make_again(Pass<T>& pass, const T* x, Kept<T>& kept) {
  kept.parts.resize(1);
  const PooledArray<T> out = pass.take(this->out_elements());
  const bool repeated = std::exchange(pass.repeats, true);
  module_->forward(pass, x, kept.parts[0], out.data());
  pass.repeats = repeated;
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
  pass.enter_weight_gradient(name_, has_dense_, has_experts_);
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
