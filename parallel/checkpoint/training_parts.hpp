#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/checkpoint/index/item.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/optim/optimizer.hpp>

namespace sinew::parallel {

/// What a parameter of a DataParallel is of the whole model's.
struct ParameterShape {
  std::vector<std::int64_t> shape;  ///< of the whole
  Box box;                          ///< what this rank's group has of it: a tensor-parallel part. No dimensions: all
};

/// What a checkpoint of training consists of on this rank: of each parameter `path` what it owns, and of the
/// optimizer's state for that `optimizer.path.moment1`, `.moment2`, `.momentum`, `.master`.
/// Shape:    one entry of `shapes` per parameter, or none at all: parameters are flat and whole.
/// Collective along the row's axes, between two steps.
/// Lifetime: until the next step begins; the buffers are those of the strategy and the optimizer.
/// Errors:   InvalidArgument naming the parameter whose shape does not have its elements; as
///           DataParallel::begin_checkpoint.
SINEW_API std::vector<CheckpointPart> parts_to_save(DataParallel& data, Optimizer& optimizer,
                                                    std::span<const ParameterShape> shapes = {});

/// The same for carry_over, after other ranks have died: wherever this rank is in a step, and without a call of others.
SINEW_API std::vector<CheckpointPart> parts_to_carry(DataParallel& data, Optimizer& optimizer,
                                                     std::span<const ParameterShape> shapes = {});

/// What is to be filled to go on from a checkpoint: as parts_to_save, and parameters that are whole on every rank
/// between steps as a whole. The optimizer's number of steps is the caller's to restore.
SINEW_API std::vector<CheckpointPart> parts_to_load(DataParallel& data, Optimizer& optimizer,
                                                    std::span<const ParameterShape> shapes = {});

}  // namespace sinew::parallel
