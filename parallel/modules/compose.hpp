#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/modules/module.hpp>

namespace sinew::parallel {

/// Modules one after the other. The outputs between them are kept for the backward pass, except those that no module
/// reads there. With drop_cheap_arrays() the outputs of modules that can make them again are not kept either. They are
/// made again before the backward pass of the module that reads them.
/// Errors: InvalidArgument if there is no module, or if one does not take as many elements as the one before it makes.
template <class T>
class SINEW_API Sequence final : public Module<T> {
 public:
  explicit Sequence(std::vector<ModulePtr<T>> modules);

  std::int64_t in_elements() const override { return modules_.front()->in_elements(); }
  std::int64_t out_elements() const override { return modules_.back()->out_elements(); }
  ArrayCounts kept_arrays() const override;
  ArrayCounts deferred_arrays() const override;
  ArrayCounts forward_arrays(bool keeps) const override;
  ArrayCounts backward_arrays() const override;
  ArrayCounts first_half_arrays() const override;
  ArrayCounts second_half_arrays() const override;
  void for_each_part(const std::function<void(ModulePtr<T>& part)>& f) override {
    for (ModulePtr<T>& module : modules_) f(module);
  }
  bool needs_input() const override;
  bool can_remake() const override;
  void remake(Pass<T>& pass, const T* x, const Kept<T>& kept, T* out) override;
  void drop_cheap_arrays(bool drop) override { drops_ = drop; }
  bool runs_on_devices() const override { return true; }
  void declare(ParameterList& list) override;
  void forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) override;
  void input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;
  void weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) override;
  void backward(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;

 private:
  ArrayCounts output_array(std::size_t i) const { return {modules_[i]->out_elements()}; }
  std::vector<bool> kept_outputs() const;
  void add_remade(std::size_t i, std::vector<bool>& there, ArrayCounts& here) const;
  const T* output(Pass<T>& pass, const T* x, Kept<T>& kept, std::size_t i);
  const T* input_of(Pass<T>& pass, const T* x, Kept<T>& kept, std::size_t i);

  std::vector<ModulePtr<T>> modules_;
  bool drops_ = false;  // outputs that are cheap to make again
};

/// A base for modules around another one. It has the sizes, the planned arrays and the parameters of that module. The
/// derived class adds the passes.
template <class T>
class SINEW_API Wrapper : public Module<T> {
 public:
  std::int64_t in_elements() const override { return module_->in_elements(); }
  std::int64_t out_elements() const override { return module_->out_elements(); }
  ArrayCounts kept_arrays() const override { return module_->kept_arrays(); }
  ArrayCounts deferred_arrays() const override { return module_->deferred_arrays(); }
  ArrayCounts forward_arrays(bool keeps) const override { return module_->forward_arrays(keeps); }
  ArrayCounts backward_arrays() const override { return module_->backward_arrays(); }
  ArrayCounts first_half_arrays() const override { return module_->first_half_arrays(); }
  ArrayCounts second_half_arrays() const override { return module_->second_half_arrays(); }
  void for_each_part(const std::function<void(ModulePtr<T>& part)>& f) override { f(module_); }
  bool needs_input() const override { return module_->needs_input(); }
  void declare(ParameterList& list) override { module_->declare(list); }

 protected:
  explicit Wrapper(ModulePtr<T> module) : module_(std::move(module)) {}

  ModulePtr<T> module_;
};

/// out = x + module(x). The module must make as many elements as it takes.
/// Errors: InvalidArgument if it does not.
template <class T>
class SINEW_API Residual final : public Wrapper<T> {
 public:
  explicit Residual(ModulePtr<T> module);

  bool can_remake() const override { return module_->can_remake(); }
  void remake(Pass<T>& pass, const T* x, const Kept<T>& kept, T* out) override;
  bool runs_on_devices() const override { return true; }
  void forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) override;
  void input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;
  void weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) override;
  void backward(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;

 private:
  using Wrapper<T>::module_;
};

/// Keeps nothing: its input stays with the caller. The backward pass makes everything else again, by another forward
/// pass. It stands within a Unit, because rows that gather units refuse to open one twice.
/// Source: Chen et al., Training deep nets with sublinear memory cost, arXiv 1604.06174.
template <class T>
class SINEW_API Recomputed final : public Wrapper<T> {
 public:
  explicit Recomputed(ModulePtr<T> module) : Wrapper<T>(std::move(module)) {}

  std::string_view name() const override { return module_->name(); }
  ArrayCounts kept_arrays() const override { return {}; }
  /// Between both halves of a backward pass all activations are there again.
  ArrayCounts deferred_arrays() const override { return module_->kept_arrays() + module_->deferred_arrays(); }
  ArrayCounts forward_arrays(bool /*keeps*/) const override { return module_->forward_arrays(false); }
  ArrayCounts backward_arrays() const override { return most_of(made_again(), module_->backward_arrays()); }
  ArrayCounts first_half_arrays() const override { return most_of(made_again(), module_->first_half_arrays()); }
  bool needs_input() const override { return true; }
  bool runs_on_devices() const override { return true; }
  void forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) override;
  void input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;
  void weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) override;
  void backward(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;

 private:
  void make_again(Pass<T>& pass, const T* x, Kept<T>& kept);
  /// The most arrays that make_again() has at a time.
  ArrayCounts made_again() const { return ArrayCounts{this->out_elements()} + module_->forward_arrays(true); }

  using Wrapper<T>::module_;
};

/// The parameters of the module are one unit of data parallelism (DataParameter::unit). Where parameters are sharded,
/// they are gathered before the module's passes and freed after them. Units do not contain each other.
template <class T>
class SINEW_API Unit final : public Wrapper<T> {
 public:
  Unit(std::string name, ModulePtr<T> module) : Wrapper<T>(std::move(module)), name_(std::move(name)) {}

  std::string_view name() const override { return name_; }
  bool runs_on_devices() const override { return true; }
  void declare(ParameterList& list) override;
  void forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) override;
  void input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;
  void weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) override;
  void backward(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;

 private:
  using Wrapper<T>::module_;

  std::string name_;
  bool has_dense_ = false, has_experts_ = false;  // parameters
};

extern template class Sequence<float>;
extern template class Sequence<double>;
extern template class Residual<float>;
extern template class Residual<double>;
extern template class Recomputed<float>;
extern template class Recomputed<double>;
extern template class Unit<float>;
extern template class Unit<double>;

/// Shorthands for modules by value, such as sequence<T>(a, b, c).
template <class T>
ModulePtr<T> sequence(std::vector<ModulePtr<T>> modules) {
  return std::make_unique<Sequence<T>>(std::move(modules));
}
template <class T, class... Modules>
ModulePtr<T> sequence(Modules&&... modules) {
  std::vector<ModulePtr<T>> list;
  (list.push_back(std::forward<Modules>(modules)), ...);
  return std::make_unique<Sequence<T>>(std::move(list));
}
template <class T>
ModulePtr<T> residual(ModulePtr<T> module) {
  return std::make_unique<Residual<T>>(std::move(module));
}
template <class T>
ModulePtr<T> recomputed(ModulePtr<T> module) {
  return std::make_unique<Recomputed<T>>(std::move(module));
}
template <class T>
ModulePtr<T> unit(std::string name, ModulePtr<T> module) {
  return std::make_unique<Unit<T>>(std::move(name), std::move(module));
}

}  // namespace sinew::parallel
