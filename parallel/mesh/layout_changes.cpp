#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

#include <fmt/ranges.h>

#include <sinew/parallel/mesh/axis_names.hpp>
#include <sinew/parallel/mesh/layout_changes.hpp>

namespace sinew::parallel {
namespace {

/// The number of ranks must be a multiple of the result. If dp is given, it must be equal. Sizes below 1 count as 1.
std::int64_t unit_of(const LayoutRequest& asked) {
  LayoutSizes s = asked.sizes;
  for (const SizeField& f : kSizeFields) s.*f.value = std::max(s.*f.value, 1);
  const std::int64_t dense = product_of({s.tp, s.cp, s.dp, s.pp});
  return asked.sizes.dp > 0 ? dense : std::lcm(dense, product_of({s.etp, s.ep, s.pp}));
}

Changes to_ranks(const LayoutRequest& asked, std::int64_t ranks) {
  if (ranks < 1 || ranks > std::numeric_limits<int>::max()) return {};
  return {{fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s"), {static_cast<int>(ranks), asked.sizes}}};
}

Change to_order(const LayoutRequest& asked, const std::vector<std::string>& names) {
  Change change{"order " + join_names(names), asked};
  change.to.sizes.order = join_names(names);
  return change;
}

Change to_levels(const LayoutRequest& asked, std::vector<int> levels) {
  Change change{fmt::format("cp_levels {}", fmt::join(levels, ", ")), asked};
  change.to.sizes.cp_levels = std::move(levels);
  return change;
}

}  // namespace

Changes size_changes(const LayoutRequest& asked, std::string_view field) {
  const SizeField& f =
      *std::ranges::find(kSizeFields, field, [](const SizeField& x) { return std::string_view(x.name); });
  const int now = asked.sizes.*f.value;
  std::vector<std::int64_t> values = divisors_of(std::max(asked.ranks, 1));
  std::erase(values, now);
  std::ranges::sort(values, {}, [now](std::int64_t v) { return std::pair(std::abs(v - now), v); });
  Changes changes;
  for (const std::int64_t v : values) {
    changes.push_back({fmt::format("{} {}", field, v), asked});
    changes.back().to.sizes.*f.value = static_cast<int>(v);
  }
  return changes;
}

Changes fewer_ranks(const LayoutRequest& asked) {
  const std::int64_t unit = unit_of(asked);
  if (asked.sizes.dp > 0) return unit < asked.ranks ? to_ranks(asked, unit) : Changes();
  return to_ranks(asked, asked.ranks / unit * unit);
}

Changes more_ranks(const LayoutRequest& asked) {
  const std::int64_t unit = unit_of(asked);
  if (asked.sizes.dp > 0) return unit > asked.ranks ? to_ranks(asked, unit) : Changes();
  return to_ranks(asked, (std::max(asked.ranks, 0) / unit + 1) * unit);
}

Changes order_changes(const LayoutRequest& asked) {
  std::vector<std::string> names;
  for (std::string& name : split_names(asked.sizes.order)) {
    const bool known = std::ranges::find(kOrderNames, name) != std::ranges::end(kOrderNames);
    if (known && std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  std::vector<std::string> missing = missing_in_order(asked);
  if (lacks_unknown_dp(asked)) missing.emplace_back("dp");
  for (const std::string& name : missing)
    names.insert(!names.empty() && names.back() == "pp" ? names.end() - 1 : names.end(), name);
  std::vector<std::string> pp_last = names;
  std::erase(pp_last, "pp");
  pp_last.emplace_back("pp");
  Changes changes;
  if (!names.empty()) changes.push_back(to_order(asked, names));
  changes.push_back(to_order(asked, pp_last));
  return changes;
}

Changes level_changes(const LayoutRequest& asked) {
  std::vector<int> levels = asked.sizes.cp_levels;
  Changes changes;
  if (!levels.empty()) {
    const std::int64_t inner = product_of(std::span(levels).first(levels.size() - 1));
    if (inner > 0 && asked.sizes.cp % inner == 0) {
      levels.back() = static_cast<int>(asked.sizes.cp / inner);
      changes.push_back(to_levels(asked, std::move(levels)));
    }
  }
  changes.push_back(to_levels(asked, {asked.sizes.cp}));
  return changes;
}

Changes cp_changes(const LayoutRequest& asked) {
  Changes changes = size_changes(asked, "cp");
  std::erase_if(changes, [&](const Change& c) { return c.to.sizes.cp != product_of(asked.sizes.cp_levels); });
  return changes;
}

bool lacks_unknown_dp(const LayoutRequest& asked) {
  const std::vector<std::string> named = split_names(asked.sizes.order);
  const bool is_known = dp_of(asked) > 0 && edp_of(asked) > 0;
  return !is_known && std::max(dp_of(asked), edp_of(asked)) <= 1 && std::ranges::find(named, "dp") == named.end();
}

std::vector<std::string> missing_in_order(const LayoutRequest& asked) {
  const LayoutSizes& s = asked.sizes;
  const int largest[] = {std::max(s.tp, s.etp), s.cp, s.ep, std::max(dp_of(asked), edp_of(asked)), s.pp};
  const std::vector<std::string> named = split_names(s.order);
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < std::size(largest); ++i) {
    if (largest[i] > 1 && std::ranges::find(named, kOrderNames[i]) == named.end()) missing.emplace_back(kOrderNames[i]);
  }
  return missing;
}

}  // namespace sinew::parallel
