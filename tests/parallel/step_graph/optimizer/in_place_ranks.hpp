#pragma once

#include <map>
#include <string>
#include <vector>

#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel::test {

/// By gate (with the number of its occurrence) and tensor: the elements that the engine may read, rank by rank.
using ElementsRead = std::map<std::string, std::map<TensorId, std::vector<double>>>;

/// Runs a graph whose exchanges are in place on all ranks of a mesh, and returns the elements that the engine reads.
/// One thread has the arrays of all ranks. Every tensor has a few elements for each rank. A sum is an average. A signal
/// that is not `unchanged` writes other numbers on each rank. An element that a rank does not have is NaN.
/// sharded: the axis along which ranks have different parts after a Free without axes.
/// read_later: the tensors that the engine reads after the step.
ElementsRead read_in_place(const StepGraph& graph, const Factorisation& mesh, const std::string& sharded,
                           const std::vector<TensorId>& read_later);

/// The largest difference. Infinite if something that was a number is none any more, or if gates differ.
double worst(const ElementsRead& found, const ElementsRead& expected);

}  // namespace sinew::parallel::test
