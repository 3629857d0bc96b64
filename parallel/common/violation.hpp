#pragma once

#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// A rule that a request breaks.
struct Violation {
  std::string rule;   ///< "dense"
  std::string found;  ///< "16 ranks are not a multiple of tp 3 * cp 1 * pp 4"
  /// Changes, each of which mends the rule alone: "tp 2", "12 ranks", "zero 3". For each thing that can be changed it
  /// is the nearest change that mends this rule and breaks no rule that is kept. Empty: no single change mends it.
  std::vector<std::string> fixes;
};

/// A line for each: "  dense: 16 ranks are not a multiple of tp 3 * cp 1 * pp 4; expected tp 2 or 12 ranks".
SINEW_API std::string to_string(const std::vector<Violation>& violations);

}  // namespace sinew::parallel
