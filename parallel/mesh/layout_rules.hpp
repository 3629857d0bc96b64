#pragma once

#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/violation.hpp>
#include <sinew/parallel/mesh/layout_sizes.hpp>

namespace sinew::parallel {

/// All rules that a layout of so many ranks would break. Empty: the layout can be made. A rule is not judged if it
/// depends on another rule that is broken.
///   ranks, tp, ..   are 1 or more; dp is 0 or more
///   dense           tp * cp * dp * pp are the ranks; if dp is 0, tp * cp * pp divide the ranks
///   expert          etp * ep * pp divide the ranks
///   cp_levels       multiply to cp
///   order_known     the order names tp, cp, ep, dp and pp only
///   order_once      the order names none of them twice
///   order_complete  the order names all that are larger than 1; etp has the place of tp, and edp that of dp
///   pipelines       the ranks of a pipeline are the same for dense parameters and for experts
SINEW_API std::vector<Violation> violations(int ranks, const LayoutSizes& sizes);

}  // namespace sinew::parallel
