#include <algorithm>

#include <fmt/ranges.h>

#include <sinew/parallel/mesh/layout_rules.hpp>
#include <sinew/parallel/mesh/layout_table.hpp>

namespace sinew::parallel {
namespace {

using Findings = std::vector<Finding>;  // of each rule of the table

Findings judge(const LayoutRequest& asked) {
  Findings findings;
  for (const LayoutRule& rule : layout_rules()) findings.push_back(rule.judge(asked));
  return findings;
}

bool is_broken(const Finding& finding) { return finding.value_or("") != ""; }

/// Harmless: no rule is broken that was kept, but one that could not be judged turns out to be.
enum class Effect { Mends, MendsHarmlessly, None };

/// Of a change on rule `at`.
Effect effect_of(const Findings& before, std::size_t at, const LayoutRequest& to) {
  const Findings after = judge(to);
  Effect effect = Effect::Mends;
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (!is_broken(after[i])) continue;
    if (i == at || before[i] == "") return Effect::None;
    if (!before[i]) effect = Effect::MendsHarmlessly;
  }
  return effect;
}

/// The nearest change that reveals no other broken rule, else the nearest that does no harm; none: end.
Changes::const_iterator best(const Changes& changes, const Findings& before, std::size_t at) {
  auto found = changes.end();
  for (auto c = changes.begin(); c != changes.end(); ++c) {
    const Effect effect = effect_of(before, at, c->to);
    if (effect == Effect::Mends) return c;
    if (effect == Effect::MendsHarmlessly && found == changes.end()) found = c;
  }
  return found;
}

}  // namespace

std::vector<Violation> violations(int ranks, const LayoutSizes& sizes) {
  const LayoutRequest asked{ranks, sizes};
  const Findings findings = judge(asked);
  std::vector<Violation> broken;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    if (!is_broken(findings[i])) continue;
    Violation v{layout_rules()[i].name, *findings[i], {}};
    for (const Changes& changes : layout_rules()[i].changes(asked)) {
      const auto fix = best(changes, findings, i);
      if (fix != changes.end()) v.fixes.push_back(fix->text);
    }
    broken.push_back(std::move(v));
  }
  return broken;
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
