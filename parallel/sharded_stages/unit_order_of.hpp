#pragma once

// Sharded parameters in the stages of a pipeline. The room turns a rank's part of a schedule into an order of actions
// on units of data parallelism, and says how many bytes stages gather. It may include parameters and the plan of data
// parallelism. It may also include the rooms of a pipeline's schedule, its proof and its passes.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/data_parallel/plan/row.hpp>
#include <sinew/parallel/data_parallel/plan/unit_order.hpp>
#include <sinew/parallel/parameter/parameter.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>
#include <sinew/parallel/pipeline/verify/stage_memory.hpp>

namespace sinew::parallel {

/// The units of each stage of a rank, in the order in which the stage's forward pass uses them. A unit belongs to one
/// stage.
using StageUnits = std::map<std::int32_t, std::vector<std::string>>;

/// The ways in which the units of a stage are gathered.
enum class UnitGathers : std::uint8_t {
  ByStage,  ///< all at Unshard, and freed together at Reshard
  /// One after the other in each compute, one ahead of its use, and freed after it. The engine calls
  /// DataParallel::begin_use() where it enters a unit. It calls end_use() of all units where the schedule reshards the
  /// stage. This is for schedules of with_sharding_of_passes().
  ByUnit
};

/// The order of a rank's actions on units (DataOptions::order) that a schedule asks for. Unshard and Reshard of a stage
/// become those of all its units, in the order of the forward pass. Reduce takes the units in the reverse order. The
/// order of evaluation is that of forward_only(schedule). A schedule without these actions gets those of
/// with_sharding() with all stages.
/// outer: with UnitGathers::ByUnit, units that are used during all of a compute.
/// Errors: InvalidArgument for a schedule that prove() refuses, and for one that has Unshard and no Reduce. Also for a
///         stage that is on another rank, and for a unit of two stages.
SINEW_API UnitOrder unit_order_of(const PipelineSchedule& schedule, std::int32_t rank, const StageUnits& units,
                                  UnitGathers gathers = UnitGathers::ByStage, const std::set<std::string>& outer = {});

/// The bytes of a stage that are there at a time with UnitGathers::ByUnit. They are those of two units that follow each
/// other, and those of the outer units.
/// parameters: those of the stage, in the order in which units are used.
SINEW_API StageBytes unit_bytes(const std::vector<DataParameter>& parameters, const DataRow& row, int shards,
                                const std::set<std::string>& outer = {});

/// Adds a unit that several stages use, or a stage of another rank. It is gathered before everything else. It is summed
/// and freed after everything else.
SINEW_API UnitOrder with_outer_unit(UnitOrder order, const std::string& unit);

/// The bytes that a stage holds only for a part of a step, under a row whose sharded axis has `shards` ranks.
/// parameters: those of the stage.
SINEW_API StageBytes stage_bytes(const std::vector<DataParameter>& parameters, const DataRow& row, int shards);

}  // namespace sinew::parallel
