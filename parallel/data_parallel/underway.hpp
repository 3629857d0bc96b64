#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// Bytes of the memory of each group of parameters that is only there during a step; 0: it stays.
struct UnderwaySizes {
  std::vector<std::size_t> group_of;   ///< of each parameter
  std::vector<std::size_t> parameter;  ///< by group: the whole
  std::vector<std::size_t> gradient;
  std::function<std::size_t(const std::string& axes)> ranks;
};

/// The most that may be under way in a step.
struct MostUnderway {
  std::size_t bytes = 0;
  std::vector<std::size_t> pieces;  ///< what that is made of
  std::size_t gathered = 0;         ///< the most of parameters
};

/// Runs the graph of a row that gathers its parameters as StepRunner does, with every way in which exchanges can be
/// late: what is there depends on how far the engine is and on how many exchanges are over, which end in their order.
/// The engine asks for gradients of a unit between its before_backward and after_backward. `adds_up`: whole gradients
/// of all parameters are there at the begin.
/// Cost: for each call of the engine the exchanges that may be late then.
MostUnderway most_underway(const StepGraph& graph, const UnderwaySizes& sizes, bool adds_up);

}  // namespace sinew::parallel
