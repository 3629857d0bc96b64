#pragma once

#include <sinew/parallel/common/rule_table.hpp>
#include <sinew/parallel/mesh/layout_arithmetic.hpp>
#include <sinew/parallel/mesh/layout_changes.hpp>

namespace sinew::parallel {

using LayoutRule = RuleOf<LayoutRequest>;

/// The rules that layout_rules.hpp lists, in its order.
const RuleTable<LayoutRequest>& layout_rules();

}  // namespace sinew::parallel
