#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/modules/module_names.hpp>

namespace sinew::parallel {

std::optional<std::size_t> ModuleNames::find(std::string_view module) {
  std::optional<std::size_t> longest;
  if (module.empty()) return longest;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const std::string& name = names_[i];
    if (!module.starts_with(name) || (module.size() > name.size() && module[name.size()] != '.')) continue;
    if (!longest || name.size() > names_[*longest].size()) longest = i;
  }
  if (longest) found_[*longest] = 1;
  return longest;
}

void ModuleNames::require_all_found() const {
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (found_[i] == 0) missing.push_back(names_[i]);
  }
  if (missing.empty()) return;
  throw Error(
      Code::InvalidArgument,
      fmt::format("{}: no module or unit is called '{}', expected names of modules, or beginnings of them up to "
                  "a dot",
                  policy_, fmt::join(missing, "', '")));
}

}  // namespace sinew::parallel
