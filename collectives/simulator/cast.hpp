#pragma once

#include <memory>
#include <vector>

#include <sinew/collectives/execution/executable.hpp>
#include <sinew/collectives/selection/recipe.hpp>
#include <sinew/collectives/simulator/simulate.hpp>
#include <sinew/collectives/simulator/symmetry.hpp>

namespace sinew {

/// Who plays in a simulation: of each kind of ranks the first one, with what it runs.
struct Cast {
  Symmetry symmetry;
  bool in_order = true;  ///< ranks of a kind do the same in the same order; false: some chunks sooner than others do
  std::vector<std::unique_ptr<Executable>> code;  ///< by kind
  DType dtype = DType::U8;
};

/// The fewest that stand for all without an approximation, if that is few enough steps, else with one.
/// Errors: as simulate().
Cast find_cast(const Recipe& recipe, const CollectiveDesc& desc, const Network& network,
               const SimulationOptions& options);

}  // namespace sinew
