#pragma once

#include <map>
#include <string>
#include <vector>

#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

#include "placed_run.hpp"

namespace sinew::parallel::test {

/// By gate, by rank, by tensor of the gate.
using ReadOnRanks = std::map<std::string, std::vector<std::vector<Array>>>;

/// Runs a graph on all ranks of a mesh with any axes, and returns the tensors that its gates read. `runnable` is
/// `computes`, lowered and changed by passes. One thread has the arrays of all ranks. Freed tensors become NaN.
/// given: wholes, by tensor. Each rank takes its part. If a tensor is Partial, each rank takes another share of it.
ReadOnRanks run_simulated(const StepGraph& computes, const StepGraph& runnable, const Factorisation& mesh,
                          const std::vector<Array>& given);

/// Returns the tensors that the gates have to read, from one process that has all tensors whole (run_whole).
ReadOnRanks expected_on_ranks(const StepGraph& computes, const Factorisation& mesh, const std::vector<Array>& values);

/// The largest difference, in units of one plus the size of what is expected. Infinite if shapes or gates differ.
double worst(const ReadOnRanks& found, const ReadOnRanks& expected);

}  // namespace sinew::parallel::test
