#pragma once

#include <string>
#include <vector>

namespace sinew::parallel {

/// The number of ranks of each kind of parallelism. dp = 0: as many as the other sizes leave.
struct LayoutSizes {
  int tp = 1;   ///< tensor
  int cp = 1;   ///< context
  int dp = 0;   ///< data
  int pp = 1;   ///< pipeline
  int ep = 1;   ///< expert: ranks that experts are spread over
  int etp = 1;  ///< tensor, inside an expert
  std::string order = "tp-cp-ep-dp-pp";
  /// Levels of hierarchical context parallelism, innermost first. Their product is cp. Empty: one level.
  std::vector<int> cp_levels{};
  friend bool operator==(const LayoutSizes&, const LayoutSizes&) = default;
};

}  // namespace sinew::parallel
