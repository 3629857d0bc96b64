#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sinew/parallel/common/violation.hpp>

namespace sinew::parallel {

/// A text that says how a rule is broken. Empty text: the rule is kept. nullopt: the rule cannot be judged, because it
/// depends on another rule that is broken.
using Finding = std::optional<std::string>;

/// A request with one setting changed, and a text that names the change: "tp 2".
template <class Request>
struct ChangeOf {
  std::string text;
  Request to;
};

/// Changes of one setting, from the value nearest to the request to the farthest. A change may break rules.
template <class Request>
using ChangesOf = std::vector<ChangeOf<Request>>;

/// One rule about a kind of request.
template <class Request>
struct RuleOf {
  std::string name;
  std::function<Finding(const Request&)> judge;
  /// For each setting that may mend the rule, changes of this setting, the nearest first.
  std::function<std::vector<ChangesOf<Request>>(const Request&)> changes;
};

/// A table of rules about one kind of request.
template <class Request>
class RuleTable {
 public:
  explicit RuleTable(std::vector<RuleOf<Request>> rules) : rules_(std::move(rules)) {}

  const std::vector<RuleOf<Request>>& rules() const noexcept { return rules_; }

  /// All rules that the request breaks, in the order of the table.
  std::vector<Violation> violations(const Request& asked) const {
    const Findings findings = judge(asked);
    std::vector<Violation> broken;
    for (std::size_t i = 0; i < findings.size(); ++i) {
      if (!is_broken(findings[i])) continue;
      Violation v{rules_[i].name, *findings[i], {}};
      for (const ChangesOf<Request>& changes : rules_[i].changes(asked)) {
        const auto fix = best(changes, findings, i);
        if (fix != changes.end()) v.fixes.push_back(fix->text);
      }
      broken.push_back(std::move(v));
    }
    return broken;
  }

 private:
  using Findings = std::vector<Finding>;  // by rule

  static bool is_broken(const Finding& finding) { return finding.value_or("") != ""; }

  Findings judge(const Request& asked) const {
    Findings findings;
    for (const RuleOf<Request>& rule : rules_) findings.push_back(rule.judge(asked));
    return findings;
  }

  /// Mends: the rule is mended, and no further rule is broken. MendsHarmlessly: the rule is mended, and a rule that
  /// could not be judged before is now broken. None: the rule stays broken, or a rule that was kept is now broken.
  enum class Effect { Mends, MendsHarmlessly, None };

  /// The effect of a change on rule `at`.
  Effect effect_of(const Findings& before, std::size_t at, const Request& to) const {
    const Findings after = judge(to);
    Effect effect = Effect::Mends;
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (!is_broken(after[i])) continue;
      if (i == at || before[i] == "") return Effect::None;
      if (!before[i]) effect = Effect::MendsHarmlessly;
    }
    return effect;
  }

  /// The nearest change with Effect::Mends. If there is none, the nearest change with Effect::MendsHarmlessly. end():
  /// there is neither.
  typename ChangesOf<Request>::const_iterator best(const ChangesOf<Request>& changes, const Findings& before,
                                                   std::size_t at) const {
    auto found = changes.end();
    for (auto c = changes.begin(); c != changes.end(); ++c) {
      const Effect effect = effect_of(before, at, c->to);
      if (effect == Effect::Mends) return c;
      if (effect == Effect::MendsHarmlessly && found == changes.end()) found = c;
    }
    return found;
  }

  std::vector<RuleOf<Request>> rules_;
};

}  // namespace sinew::parallel
