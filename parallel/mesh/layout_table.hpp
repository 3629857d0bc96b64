#pragma once

#include <functional>
#include <string>
#include <vector>

#include <sinew/parallel/mesh/layout_arithmetic.hpp>
#include <sinew/parallel/mesh/layout_changes.hpp>

namespace sinew::parallel {

struct LayoutRule {
  std::string name;
  std::function<std::string(const LayoutRequest&)> broken;  ///< in which way; empty: kept, or not to be judged
  /// Of each thing that may mend it other values, nearest first.
  std::function<std::vector<Changes>(const LayoutRequest&)> changes;
};

/// Those that layout_rules.hpp lists, in its order.
const std::vector<LayoutRule>& layout_rules();

}  // namespace sinew::parallel
