#pragma once

#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/violation.hpp>
#include <sinew/parallel/mesh/layout_sizes.hpp>

namespace sinew::parallel {

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

}  // namespace sinew::parallel
