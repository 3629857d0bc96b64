#include <algorithm>

#include <fmt/ranges.h>

#include <sinew/parallel/mesh/layout_rules.hpp>
#include <sinew/parallel/mesh/layout_table.hpp>

namespace sinew::parallel {
namespace {

/// What each rule of the table says.
std::vector<std::string> judge(const LayoutRequest& asked) {
  std::vector<std::string> said;
  for (const LayoutRule& rule : layout_rules()) said.push_back(rule.broken(asked));
  return said;
}

/// Whether what broke rule `at` is gone and nothing else has broken.
bool mends(const std::vector<std::string>& before, std::size_t at, const LayoutRequest& to) {
  const std::vector<std::string> after = judge(to);
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (!after[i].empty() && (i == at || before[i].empty())) return false;
  }
  return true;
}

}  // namespace

std::vector<Violation> violations(int ranks, const LayoutSizes& sizes) {
  const LayoutRequest asked{ranks, sizes};
  const std::vector<std::string> said = judge(asked);
  std::vector<Violation> found;
  for (std::size_t i = 0; i < said.size(); ++i) {
    if (said[i].empty()) continue;
    Violation v{layout_rules()[i].name, said[i], {}};
    for (const Changes& values : layout_rules()[i].changes(asked)) {
      const auto right = std::ranges::find_if(values, [&](const Change& c) { return mends(said, i, c.to); });
      if (right != values.end()) v.fixes.push_back(right->text);
    }
    found.push_back(std::move(v));
  }
  return found;
}

std::string to_string(const std::vector<Violation>& violations) {
  std::string text;
  for (const Violation& v : violations) {
    const std::string fix = v.fixes.empty() ? "" : fmt::format("; expected {}", fmt::join(v.fixes, " or "));
    text += fmt::format("{}  {}: {}{}", text.empty() ? "" : "\n", v.rule, v.found, fix);
  }
  return text;
}

}  // namespace sinew::parallel
