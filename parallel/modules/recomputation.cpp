#include <optional>
#include <utility>

#include <sinew/parallel/modules/compose.hpp>
#include <sinew/parallel/modules/recomputation.hpp>

namespace sinew::parallel {
namespace {

template <class T>
bool has_unit(Module<T>& module) {
  if (dynamic_cast<Unit<T>*>(&module) != nullptr) return true;
  bool found = false;
  module.for_each_part([&](ModulePtr<T>& part) { found = found || has_unit<T>(*part); });
  return found;
}

/// Nothing is gained by computing again what keeps nothing.
template <class T>
void wrap_recomputed(ModulePtr<T>& module) {
  if (module->kept_bytes() > 0) module = recomputed<T>(std::move(module));
}

/// entry: the exception that holds for the modules around. {}: none does.
template <class T>
void recompute_below(ModulePtr<T>& module, const Recomputation& policy, ModuleNames& names,
                     std::optional<std::size_t> entry) {
  const std::optional<std::size_t> own = names.find(module->name());
  const bool is_new = own && own != entry;
  if (own) entry = own;
  const Recompute recompute = entry ? policy.exceptions[*entry].recompute : policy.everywhere;
  module->for_each_part([&](ModulePtr<T>& part) { recompute_below<T>(part, policy, names, entry); });
  const bool is_unit = dynamic_cast<Unit<T>*>(module.get()) != nullptr;
  if (recompute == Recompute::Full) {
    if (is_unit) {
      module->for_each_part(wrap_recomputed<T>);
    } else if (is_new) {
      wrap_recomputed<T>(module);
    }
  }
  module->drop_cheap_arrays(recompute == Recompute::Selective);
}

}  // namespace

ModuleNames Recomputation::names() const {
  std::vector<std::string> all;
  for (const Exception& e : exceptions) all.push_back(e.name);
  return {"recomputation", std::move(all)};
}

template <class T>
ModulePtr<T> with_recomputation(ModulePtr<T> module, const Recomputation& policy, ModuleNames& names) {
  const bool is_one = policy.everywhere == Recompute::Full && !has_unit<T>(*module);
  recompute_below<T>(module, policy, names, {});
  if (is_one) wrap_recomputed<T>(module);
  return module;
}

template ModulePtr<float> with_recomputation(ModulePtr<float>, const Recomputation&, ModuleNames&);
template ModulePtr<double> with_recomputation(ModulePtr<double>, const Recomputation&, ModuleNames&);

}  // namespace sinew::parallel
