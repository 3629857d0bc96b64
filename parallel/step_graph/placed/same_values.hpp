#pragma once

#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// Proves that two graphs that check_placements() passes make the same of the same: as exchanges and splits leave a
/// tensor as a whole what it is, the gates of both read the same computes of the same computes of the same signals, and
/// in the same placements.
/// Returns the first gate or signal in which they differ; empty: none.
SINEW_API std::string same_values(const StepGraph& before, const StepGraph& after, const Factorisation& mesh);

}  // namespace sinew::parallel
