#pragma once

#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/recompute.hpp>
#include <sinew/parallel/modules/module.hpp>
#include <sinew/parallel/modules/module_names.hpp>

namespace sinew::parallel {

/// A policy by which the backward pass computes activations of a model again, instead of keeping them. Losses and
/// gradients are equal to the last bit under all policies.
///
/// None:      all activations are kept.
/// Selective: modules keep nothing that they can make again cheaply (Module::can_remake). Nothing is sent again.
/// Full:      the module keeps its input alone, and its forward pass is made again, with its exchanges. If a model has
///            units, these modules are the insides of the units that keep anything.
///
/// Source: Chen et al., arXiv 1604.06174; selective: Korthikanti et al., arXiv 2205.05198.
struct SINEW_API Recomputation {
  Recompute everywhere = Recompute::None;
  /// Names of modules and units that are treated otherwise, as ModuleNames has them. The longest name counts.
  struct Exception {
    std::string name{};
    Recompute recompute = Recompute::None;
  };
  std::vector<Exception> exceptions{};

  ModuleNames names() const;
};

/// Changes a model by the policy, before its parameters are declared. names: of the policy. The caller requires
/// afterwards that all of them were found.
template <class T>
SINEW_API ModulePtr<T> with_recomputation(ModulePtr<T> module, const Recomputation& policy, ModuleNames& names);
/// The same for all modules of a model.
/// Errors: InvalidArgument if a name stands for no module.
template <class T>
ModulePtr<T> with_recomputation(ModulePtr<T> module, const Recomputation& policy) {
  ModuleNames names = policy.names();
  module = with_recomputation(std::move(module), policy, names);
  names.require_all_found();
  return module;
}

extern template ModulePtr<float> with_recomputation(ModulePtr<float>, const Recomputation&, ModuleNames&);
extern template ModulePtr<double> with_recomputation(ModulePtr<double>, const Recomputation&, ModuleNames&);

}  // namespace sinew::parallel
