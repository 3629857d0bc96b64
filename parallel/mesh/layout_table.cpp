#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

#include <sinew/parallel/mesh/axis_names.hpp>
#include <sinew/parallel/mesh/layout_table.hpp>

namespace sinew::parallel {
namespace {

bool are_sizes(std::initializer_list<int> sizes) { return std::ranges::min(sizes) >= 1; }

bool has_dense_sizes(const LayoutRequest& asked) {
  const LayoutSizes& s = asked.sizes;
  return are_sizes({asked.ranks, s.tp, s.cp, s.pp}) && s.dp >= 0;
}

bool has_expert_sizes(const LayoutRequest& asked) {
  return are_sizes({asked.ranks, asked.sizes.etp, asked.sizes.ep, asked.sizes.pp});
}

/// "1 rank is", "6 ranks are".
std::string ranks_are(const LayoutRequest& asked) {
  return asked.ranks == 1 ? "1 rank is" : fmt::format("{} ranks are", asked.ranks);
}

Finding judge_ranks(const LayoutRequest& asked) { return asked.ranks < 1 ? fmt::format("{} ranks", asked.ranks) : ""; }

Finding judge_dense(const LayoutRequest& asked) {
  const LayoutSizes& s = asked.sizes;
  if (!has_dense_sizes(asked)) return std::nullopt;
  const std::int64_t taken = product_of({s.tp, s.cp, s.pp});
  if (s.dp == 0 && asked.ranks % taken == 0) return "";
  if (s.dp == 0) return fmt::format("{} not a multiple of tp {} * cp {} * pp {}", ranks_are(asked), s.tp, s.cp, s.pp);
  if (product_of({s.tp, s.cp, s.dp, s.pp}) == asked.ranks) return "";
  return fmt::format("{} not tp {} * cp {} * dp {} * pp {}", ranks_are(asked), s.tp, s.cp, s.dp, s.pp);
}

Finding judge_expert(const LayoutRequest& asked) {
  const LayoutSizes& s = asked.sizes;
  if (!has_expert_sizes(asked)) return std::nullopt;
  if (edp_of(asked) > 0) return "";
  if (s.etp == 1 && s.ep == 1 && judge_dense(asked) != "") return std::nullopt;  // there is nothing of experts to mend
  return fmt::format("{} not a multiple of etp {} * ep {} * pp {}", ranks_are(asked), s.etp, s.ep, s.pp);
}

Finding judge_levels(const LayoutRequest& asked) {
  const LayoutSizes& s = asked.sizes;
  if (s.cp < 1) return std::nullopt;
  if (s.cp_levels.empty() || product_of(s.cp_levels) == s.cp) return "";
  return fmt::format("levels {} do not multiply to cp {}", fmt::join(s.cp_levels, ", "), s.cp);
}

Finding judge_known(const LayoutRequest& asked) {
  std::vector<std::string> names = split_names(asked.sizes.order);
  std::erase_if(names, [](const std::string& n) { return std::ranges::find(kOrderNames, n) != std::end(kOrderNames); });
  if (names.empty()) return "";
  return fmt::format("order '{}' names '{}', and there are {}", asked.sizes.order, fmt::join(names, "', '"),
                     fmt::join(kOrderNames, ", "));
}

Finding judge_once(const LayoutRequest& asked) {
  std::vector<std::string> names = split_names(asked.sizes.order);
  std::vector<std::string> seen, repeated;
  for (const std::string& n : names) {
    const bool again = std::ranges::find(seen, n) != seen.end();
    (again ? repeated : seen).push_back(n);
  }
  if (repeated.empty()) return "";
  return fmt::format("order '{}' names {} more than once", asked.sizes.order, fmt::join(repeated, ", "));
}

Finding judge_complete(const LayoutRequest& asked) {
  const std::vector<std::string> missing = missing_in_order(asked);
  if (missing.empty()) return lacks_unknown_dp(asked) ? Finding() : "";
  return fmt::format("order '{}' has no place for {}", asked.sizes.order, fmt::join(missing, ", "));
}

Finding judge_pipelines(const LayoutRequest& asked) {
  if (asked.sizes.pp == 1) return "";
  for (const auto& judge : {judge_dense, judge_expert, judge_known, judge_once, judge_complete}) {
    if (judge(asked) != "") return std::nullopt;
  }
  const int dense = Factorisation(dense_axes(asked)).stride("pp");
  const int expert = Factorisation(expert_axes(asked)).stride("pp");
  if (dense == expert) return "";
  return fmt::format("stages are {} ranks apart for dense parameters and {} for experts, in order '{}'", dense, expert,
                     asked.sizes.order);
}

/// That a size is one.
LayoutRule size_rule(const SizeField& f) {
  const std::string name = f.name;
  const int least = name == "dp" ? 0 : 1;
  const auto judge = [f, least](const LayoutRequest& asked) {
    const int size = asked.sizes.*f.value;
    return Finding(size < least ? fmt::format("a size of {}", size) : "");
  };
  return {name, judge, [name](const LayoutRequest& asked) { return std::vector<Changes>{size_changes(asked, name)}; }};
}

/// Changes of a product's factors, then of the ranks.
auto factors(std::vector<std::string> fields) {
  return [fields = std::move(fields)](const LayoutRequest& asked) {
    std::vector<Changes> all;
    for (const std::string& f : fields) {
      if (f != "dp" || asked.sizes.dp > 0) all.push_back(size_changes(asked, f));
    }
    all.push_back(fewer_ranks(asked));
    all.push_back(more_ranks(asked));
    return all;
  };
}

}  // namespace

const RuleTable<LayoutRequest>& layout_rules() {
  static const RuleTable<LayoutRequest> table = [] {
    const auto orders = [](const LayoutRequest& asked) { return std::vector<Changes>{order_changes(asked)}; };
    const auto levels = [](const LayoutRequest& asked) {
      return std::vector<Changes>{level_changes(asked), cp_changes(asked)};
    };
    std::vector<LayoutRule> made{{"ranks", judge_ranks, factors({})}};
    for (const SizeField& f : kSizeFields) made.push_back(size_rule(f));
    made.push_back({"dense", judge_dense, factors({"tp", "cp", "dp", "pp"})});
    made.push_back({"expert", judge_expert, factors({"etp", "ep", "pp"})});
    made.push_back({"cp_levels", judge_levels, levels});
    made.push_back({"order_known", judge_known, orders});
    made.push_back({"order_once", judge_once, orders});
    made.push_back({"order_complete", judge_complete, orders});
    made.push_back({"pipelines", judge_pipelines, orders});
    return RuleTable(std::move(made));
  }();
  return table;
}

}  // namespace sinew::parallel
