#pragma once

#include <vector>

#include <sinew/parallel/distributed_tensor/operation.hpp>

namespace sinew::parallel {

/// All placements in which an operation can run, each once. Placements are in normal form. Bytes are not filled in.
/// Errors: InvalidArgument if operands have placements along axes that overlap.
std::vector<PlacedOperation> candidates_of(const Operation& operation, const Factorisation& mesh);

}  // namespace sinew::parallel
