#pragma once

#include <string>
#include <vector>

namespace sinew::parallel {

/// How many ways each kind of parallelism has. 0: what the others leave of the ranks (dp).
struct LayoutSizes {
  int tp = 1;   ///< tensor
  int cp = 1;   ///< context
  int dp = 0;   ///< data
  int pp = 1;   ///< pipeline
  int ep = 1;   ///< expert: ranks that experts are spread over
  int etp = 1;  ///< tensor, inside an expert
  std::string order = "tp-cp-ep-dp-pp";
  /// Levels of hierarchical context parallelism, innermost first; their product is cp. Empty: one level.
  std::vector<int> cp_levels;
  friend bool operator==(const LayoutSizes&, const LayoutSizes&) = default;
};

}  // namespace sinew::parallel
