#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/checkpoint/index/item.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/optim/optimizer.hpp>

namespace sinew::parallel {

/// The parts of a training's checkpoint that this rank owns. The item `path` is a parameter. The items
/// `optimizer.path.moment1`, `.moment2`, `.momentum` and `.master` are the optimizer's state for this parameter.
/// Shape:    an item has the shape of DataParameter, and a part lies in its box.
/// Collective along the row's axes, between two steps.
/// Lifetime: valid until the next step begins. The buffers are those of the strategy and the optimizer.
/// Errors:   as DataParallel::begin_checkpoint.
SINEW_API std::vector<CheckpointPart> parts_to_save(DataParallel& data, Optimizer& optimizer);

/// The same for carry_over, after other ranks have died. It works wherever this rank is in a step, and needs no call of
/// other ranks. On a device it waits for exchanges that have not ended. If one of a step that was counted has failed,
/// there are no parts: this rank holds nothing (DataParallel::keeps_state).
SINEW_API std::vector<CheckpointPart> parts_to_carry(DataParallel& data, Optimizer& optimizer);

/// The parts that must be filled to go on from a checkpoint: as parts_to_save, but parameters that are whole on every
/// rank between steps are whole here too. The caller restores the number of the optimizer's steps.
SINEW_API std::vector<CheckpointPart> parts_to_load(DataParallel& data, Optimizer& optimizer);

}  // namespace sinew::parallel
