#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel::test {

/// Of f64, row-major.
struct Array {
  std::vector<std::int64_t> shape;
  std::vector<double> data;
};

/// An engine of loops: what a compute makes of its operands, or a rank's parts of them.
/// Knows products, sums, tanh, gelu, square, norm, softmax (over the last dimension), and the backward of each.
Array computed(const ComputeRule& rule, const std::vector<const Array*>& operands,
               const std::vector<std::int64_t>& shape);

/// What the engine gives to the signals of a graph, no two alike, as wholes by tensor; other tensors are empty.
std::vector<Array> given(const StepGraph& graph, int seed);

/// All tensors as wholes, by one process without any exchange.
std::vector<Array> run_whole(const StepGraph& graph, std::vector<Array> values);

/// The tensors that this rank's gates read, gate by gate, as StepRunner runs the lowered graph on all ranks of the
/// world along the mesh's only axis. `given` are wholes, of which each rank takes its part.
std::map<std::string, std::vector<Array>> run_on_ranks(World& world, const StepGraph& graph, const Factorisation& mesh,
                                                       const std::vector<Array>& given);

/// The same of run_whole: this rank's parts.
std::map<std::string, std::vector<Array>> parts_of(const StepGraph& graph, const Factorisation& mesh, int rank,
                                                   const std::vector<Array>& values);

/// The largest difference, in units of one plus the size of what is expected.
double worst(const std::map<std::string, std::vector<Array>>& found,
             const std::map<std::string, std::vector<Array>>& expected);

}  // namespace sinew::parallel::test
