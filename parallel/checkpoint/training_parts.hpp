#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <sinew/core/export.hpp>
#include <sinew/parallel/checkpoint/item.hpp>
#include <sinew/parallel/data/data_parallel.hpp>
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
/// Lifetime: until the next step begins; the buffers are those of the strategy and the optimizer.
/// Errors:   InvalidArgument naming the parameter whose shape does not have its elements.
SINEW_API std::vector<CheckpointPart> parts_to_save(DataParallel& data, Optimizer& optimizer,
                                                    std::span<const ParameterShape> shapes = {});

/// What is to be filled to go on from a checkpoint, between two steps: as above, and parameters that are whole on every
/// rank between steps as a whole. The optimizer's number of steps is the caller's to restore.
SINEW_API std::vector<CheckpointPart> parts_to_load(DataParallel& data, Optimizer& optimizer,
                                                    std::span<const ParameterShape> shapes = {});

}  // namespace sinew::parallel
