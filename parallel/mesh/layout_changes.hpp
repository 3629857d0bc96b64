#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/parallel/common/rule_table.hpp>
#include <sinew/parallel/mesh/layout_arithmetic.hpp>

namespace sinew::parallel {

/// All names of an order, in the default order, fastest first.
inline constexpr std::string_view kOrderNames[] = {"tp", "cp", "ep", "dp", "pp"};

using Change = ChangeOf<LayoutRequest>;
using Changes = ChangesOf<LayoutRequest>;

/// Other values of a size: the divisors of the number of ranks.
Changes size_changes(const LayoutRequest& asked, std::string_view field);
/// The nearest numbers of ranks, below and above the requested one, that the sizes multiply to.
Changes fewer_ranks(const LayoutRequest& asked);
Changes more_ranks(const LayoutRequest& asked);
/// The same order without wrong names, and with missing names.
Changes order_changes(const LayoutRequest& asked);
/// level_changes(): other outermost levels, or a single level. cp_changes(): the cp that the levels multiply to.
Changes level_changes(const LayoutRequest& asked);
Changes cp_changes(const LayoutRequest& asked);

/// Axes larger than 1 that the order does not name, by the names that stand for them in the order: "pp".
std::vector<std::string> missing_in_order(const LayoutRequest& asked);
/// Returns whether dp is missing in the order and may be larger than 1, because the other sizes leave no whole number
/// for it.
bool lacks_unknown_dp(const LayoutRequest& asked);

}  // namespace sinew::parallel
