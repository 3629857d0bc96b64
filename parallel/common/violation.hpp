#pragma once

#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// A rule that a request breaks.
struct Violation {
  std::string rule{};   ///< "dense"
  std::string found{};  ///< "16 ranks are not a multiple of tp 3 * cp 1 * pp 4"
  /// Single changes that mend the rule: "tp 2", "12 ranks", "zero 3". For each setting, this is the nearest change that
  /// mends the rule and keeps all rules that are kept now. Empty: no single change mends the rule.
  std::vector<std::string> fixes{};
};

/// A line for each: "  dense: 16 ranks are not a multiple of tp 3 * cp 1 * pp 4; expected tp 2 or 12 ranks".
SINEW_API std::string to_string(const std::vector<Violation>& violations);

}  // namespace sinew::parallel
