#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/parallel/common/rule_table.hpp>
#include <sinew/parallel/mesh/layout_arithmetic.hpp>

namespace sinew::parallel {

/// The order's names, slowest last, when nobody says otherwise: all that there are.
inline constexpr std::string_view kOrderNames[] = {"tp", "cp", "ep", "dp", "pp"};

using Change = ChangeOf<LayoutRequest>;
using Changes = ChangesOf<LayoutRequest>;

/// Other values of a size: the divisors of the ranks.
Changes size_changes(const LayoutRequest& asked, std::string_view field);
/// Other numbers of ranks that the sizes multiply to, below the one asked for and above it.
Changes fewer_ranks(const LayoutRequest& asked);
Changes more_ranks(const LayoutRequest& asked);
/// The same order without what is wrong, with what is missing.
Changes order_changes(const LayoutRequest& asked);
/// Levels with another outermost one, else a single one; a cp that is what the levels multiply to.
Changes level_changes(const LayoutRequest& asked);
Changes cp_changes(const LayoutRequest& asked);

/// Axes larger than 1, by the names that stand for them in the order, that it does not name: "pp".
std::vector<std::string> missing_in_order(const LayoutRequest& asked);
/// Whether the order does not name dp, which may be larger than 1: the other sizes leave no whole number for it.
bool lacks_unknown_dp(const LayoutRequest& asked);

}  // namespace sinew::parallel
