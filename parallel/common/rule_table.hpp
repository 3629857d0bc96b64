#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sinew/parallel/common/violation.hpp>

namespace sinew::parallel {

/// In which way a rule is broken; empty: it is kept; none: that depends on something which another rule is about.
using Finding = std::optional<std::string>;

/// A request with one thing changed, and which: "tp 2".
template <class Request>
struct ChangeOf {
  std::string text;
  Request to;
};

/// Values for one thing, nearest to what is asked first; whether any is right is for the rules to say.
template <class Request>
using ChangesOf = std::vector<ChangeOf<Request>>;

template <class Request>
struct RuleOf {
  std::string name;
  std::function<Finding(const Request&)> judge;
  /// Of each thing that may mend it other values, nearest first.
  std::function<std::vector<ChangesOf<Request>>(const Request&)> changes;
};

/// A declarative table of rules about one kind of request.
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

  /// Harmless: no rule is broken that was kept, but one that could not be judged turns out to be.
  enum class Effect { Mends, MendsHarmlessly, None };

  /// Of a change on rule `at`.
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

  /// The nearest change that reveals no other broken rule, else the nearest that does no harm; none: end.
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
