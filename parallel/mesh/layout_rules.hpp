#pragma once

#include <string>
#include <vector>

#include <sinew/core/export.hpp>
#include <sinew/parallel/mesh/layout_sizes.hpp>

namespace sinew::parallel {

/// A rule that the sizes of a layout break.
struct Violation {
  std::string rule;   ///< "dense"
  std::string found;  ///< "16 ranks are not a multiple of tp 3 * cp 1 * pp 4"
  /// What would do, each alone: "tp 2", "pp 2", "12 ranks", "order tp-dp-pp", "cp_levels 2, 2". Of everything that can
  /// be changed the nearest that mends this rule and breaks none that is kept. Empty: no single change does.
  std::vector<std::string> fixes;
};

/// All rules that a layout of so many ranks would break; none: it can be made. A rule about what another one leaves
/// open is not judged.
///   ranks, tp, ..   1 or more; dp 0 or more
///   dense           tp * cp * dp * pp are the ranks; where dp is 0, tp * cp * pp divide them
///   expert          etp * ep * pp divide the ranks
///   cp_levels       multiply to cp
///   order_known     the order names tp, cp, ep, dp, pp only
///   order_once      none of them twice
///   order_complete  all that are larger than 1, etp being in the place of tp and edp in that of dp
///   pipelines       the ranks of a pipeline are the same for dense parameters and for experts
SINEW_API std::vector<Violation> violations(int ranks, const LayoutSizes& sizes);

/// A line each: "  dense: 16 ranks are not a multiple of tp 3 * cp 1 * pp 4; expected tp 2 or 12 ranks".
SINEW_API std::string to_string(const std::vector<Violation>& violations);

}  // namespace sinew::parallel
