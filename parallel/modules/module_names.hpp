#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/modules/module.hpp>

namespace sinew::parallel {

/// A list of names by which a policy chooses modules, and which of them have been found. A name stands for the module
/// or unit of this name, and for all whose names continue it after a dot: "blocks" for "blocks.3" and "blocks.3.norm".
class SINEW_API ModuleNames {
 public:
  /// policy: as errors name it, such as "recomputation".
  ModuleNames(std::string policy, std::vector<std::string> names)
      : policy_(std::move(policy)), names_(std::move(names)), found_(names_.size(), 0) {}

  /// The number of the longest name that stands for a module of this name. {}: none does.
  std::optional<std::size_t> find(std::string_view module);
  bool empty() const noexcept { return names_.empty(); }
  /// 1 for each name that find() has returned, otherwise 0. Ranks with different modules exchange these.
  std::span<std::int64_t> found() noexcept { return found_; }
  /// Errors: InvalidArgument if a name was not found, with all such names.
  void require_all_found() const;

 private:
  std::string policy_;
  std::vector<std::string> names_;
  std::vector<std::int64_t> found_;
};

}  // namespace sinew::parallel
