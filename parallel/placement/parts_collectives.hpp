#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/work.hpp>
#include <sinew/parallel/common/counts.hpp>
#include <sinew/parallel/placement/box.hpp>

// Collectives over parts that are contiguous in memory. `even`: the caller knows that the parts of all groups of the
// axis have one length. If false, the v-form is used.
namespace sinew::parallel {

Counts counts_of(std::span<const Box> parts);

Work gather_parts(Communicator& group, ConstBuffer in, Buffer out, DType dtype, const Counts& counts, bool even,
                  const CallOptions& options);
Work reduce_parts(Communicator& group, ConstBuffer in, Buffer out, DType dtype, const Counts& counts, ReduceOp op,
                  bool even, const CallOptions& options);

}  // namespace sinew::parallel
