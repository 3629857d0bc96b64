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

/// A request with one thing changed, and a text that says which: "tp 2".
template <class Request>
struct ChangeOf {
  std::string text;
  Request to;
};

/// Other values for one thing, the nearest to the request first. They may break rules.
template <class Request>
using ChangesOf = std::vector<ChangeOf<Request>>;

/// One rule about a kind of request.
template <class Request>
struct RuleOf {
  std::string name;
  std::function<Finding(const Request&)> judge;
  /// For each thing that may mend the rule, other values, nearest first.
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
  using Findings = std::vector<Finding>;  // of each rule

  static bool is_broken(const Finding& finding) { return finding.value_or("") != ""; }

  Findings judge(const Request& asked) const {
    Findings findings;
    for (const RuleOf<Request>& rule : rules_) findings.push_back(rule.judge(asked));
    return findings;
  }

  /// MendsHarmlessly: no rule is broken that was kept, but a rule that could not be judged is now broken.
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

  /// The nearest change that mends the rule and shows no other broken rule. Otherwise the nearest one that mends it
  /// harmlessly. end(): there is none.
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
