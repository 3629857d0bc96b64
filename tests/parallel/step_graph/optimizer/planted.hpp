#pragma once

#include <string>

#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel::test {

/// A graph with redundant exchanges that were not there before.
struct Planted {
  StepGraph graph;
  int exchanges = 0;  ///< how many were added
};

/// Adds `count` redundant exchanges to a graph of computes, at random:
///   - a second exchange of a tensor that is exchanged already
///   - a way there and back before a compute
///   - an exchange whose result nobody reads
Planted planted_in_computes(const StepGraph& graph, const Factorisation& mesh, unsigned seed, int count);

/// The same for a graph whose exchanges are in place:
///   - an exchange once more
///   - a free and the gather after it
///   - a gather whose result is freed at once
///   - a sum of a gradient after the optimizer has read it
///   - two exchanges instead of a sum
Planted planted_in_place(const StepGraph& graph, unsigned seed, int count);

}  // namespace sinew::parallel::test
