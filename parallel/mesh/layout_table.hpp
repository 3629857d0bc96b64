#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sinew/parallel/mesh/layout_arithmetic.hpp>
#include <sinew/parallel/mesh/layout_changes.hpp>

namespace sinew::parallel {

/// In which way a rule is broken; empty: it is kept; none: that depends on something which another rule is about.
using Finding = std::optional<std::string>;

struct LayoutRule {
  std::string name;
  std::function<Finding(const LayoutRequest&)> judge;
  /// Of each thing that may mend it other values, nearest first.
  std::function<std::vector<Changes>(const LayoutRequest&)> changes;
};

/// Those that layout_rules.hpp lists, in its order.
const std::vector<LayoutRule>& layout_rules();

}  // namespace sinew::parallel
