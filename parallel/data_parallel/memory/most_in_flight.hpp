#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// Bytes of each group of parameters that exist only during a step. 0: the memory of the group stays.
struct InFlightSizes {
  std::vector<std::size_t> group_of;   ///< the group of each parameter
  std::vector<std::size_t> parameter;  ///< by group: the whole parameters
  std::vector<std::size_t> gradient;   ///< by group: the whole gradients
  std::function<std::size_t(const std::string& axes)> ranks;
  /// Memory of an exchange by itself, from its start to its end. Empty: no exchange has any.
  std::function<std::size_t(const Node& exchange)> codes{};
};

/// The most memory that a step can need at a time.
struct MostInFlight {
  std::size_t bytes = 0;
  std::vector<std::size_t> pieces;  ///< the bytes of each piece; their sum is `bytes`
  std::size_t gathered = 0;         ///< the most gathered parameters at any time
};

/// Runs the graph of a row that gathers parameters, as StepRunner does, and tries every way in which exchanges can be
/// late. The memory in use depends on how far the engine is, and on how many exchanges have ended; exchanges end in
/// their order. The engine is assumed to ask for the gradients of a unit between its before_backward and its
/// after_backward, or at the place where its gate "gradients UNIT" has in the graph.
/// `adds_up`: whole gradients of all parameters are there at the start.
/// Cost: for each call of the engine, as many steps as exchanges may be late at that call.
MostInFlight most_in_flight(const StepGraph& graph, const InFlightSizes& sizes, bool adds_up);

}  // namespace sinew::parallel
