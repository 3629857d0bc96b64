#pragma once

#include <vector>

#include <sinew/parallel/data_parallel/plan/row.hpp>
#include <sinew/parallel/data_parallel/plan/step_plan.hpp>
#include <sinew/parallel/data_parallel/plan/unit_order.hpp>
#include <sinew/parallel/parameter/parameter.hpp>

namespace sinew::parallel {

/// Plans a step whose order a schedule decides. Each unit is a bucket. The engine's signals are "unshard UNIT",
/// "reshard UNIT", "reduce UNIT" and "updated". Its gates are "use UNIT", "gradients UNIT" and "optimizer". A unit has
/// as many of each as the order has actions of that kind.
/// A unit that is not used between Unshard and Reshard has its gate before Reshard.
/// Whole gradients of a unit exist from its gate to the end of its sum. This gate also waits for sums of other units,
/// except for those that began after the gate before it. So the gradients that are on their way while others are added
/// up are those of one stage.
/// Shape: the order breaks none of violations_of(). parameters: as complete_parameters() makes them.
StepPlan plan_scheduled_step(const std::vector<DataParameter>& parameters, const DataRow& row, const UnitOrder& order);

}  // namespace sinew::parallel
