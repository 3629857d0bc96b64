#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/data_parallel/plan/row.hpp>
#include <sinew/parallel/parameter/parameter.hpp>

namespace sinew::parallel {

/// The kinds of actions on a unit in a step whose order a schedule decides.
enum class UnitActionKind : std::uint8_t {
  Unshard,       ///< a call: starts to gather the unit's parameters
  Use,           ///< the first compute with these parameters; it waits for them
  Reshard,       ///< a call: the gathered parameters are not needed any more
  AddGradients,  ///< the first compute that adds to the unit's gradients, in the step or after a Reduce
  Reduce,        ///< a call: the gradients that were added up are to be summed over the ranks
};

/// An action on a unit.
struct UnitAction {
  UnitActionKind kind = UnitActionKind::Unshard;
  std::string unit{};
  friend bool operator==(const UnitAction&, const UnitAction&) = default;
};

/// The actions of a rank on its units, in the order in which it takes them. A schedule of a pipeline decides them
/// (unit_order_of). They are equal on all ranks along the row's axes. Empty: each unit runs once forward and once
/// backward.
/// The order of several Reduces of one unit: each but the first adds its sum to those before. Along axes that do not
/// shard, only the last one sums.
struct UnitOrder {
  std::vector<UnitAction> training{};
  std::vector<UnitAction> evaluation{};  ///< of a pass within forward_only(): Unshard, Use and Reshard

  bool empty() const noexcept { return training.empty() && evaluation.empty(); }
};

/// "unshard u0, use u0, reshard u0".
SINEW_API std::string to_string(const std::vector<UnitAction>& actions);

/// Everything that is wrong with an order, in words. A right order names units of the parameters only. It reduces each
/// unit after the last gradient that is added. Under rows that shard parameters, a unit is unsharded when it computes,
/// and sharded at the end. Under rows that keep whole gradients, each unit is reduced once.
SINEW_API std::vector<std::string> violations_of(const UnitOrder& order, const std::vector<DataParameter>& parameters,
                                                 const DataRow& row);

/// Returns whether a unit is reduced more than once in a step.
SINEW_API bool reduces_again(const UnitOrder& order);

}  // namespace sinew::parallel
