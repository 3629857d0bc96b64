#pragma once

#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// Proves that two graphs, both of which check_placements() passes, compute the same. Exchanges and splits do not
/// change a tensor as a whole. So the gates of both graphs must read tensors that follow from the same signals by the
/// same computes. Their placements must be equal too.
/// Returns the first gate or signal in which the graphs differ. Empty: none.
SINEW_API std::string same_values(const StepGraph& before, const StepGraph& after, const Factorisation& mesh);

}  // namespace sinew::parallel
