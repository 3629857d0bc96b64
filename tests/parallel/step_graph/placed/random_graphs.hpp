#pragma once

#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel::test {

/// A graph of f64 tensors with a dozen computes and exchanges between them, as they come; of every second seed with its
/// backward pass. Equal on all ranks.
StepGraph random_graph(unsigned seed, const Factorisation& mesh);

}  // namespace sinew::parallel::test
