#pragma once

#include <sinew/core/call/collective.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/transports/nccl/library/features.hpp>

namespace sinew::nccl {

/// The facts by which can_run() judges calls. They are equal on all ranks.
struct Abilities {
  int version = 0;             ///< NCCL's version, as version_code() makes it
  int compute_capability = 0;  ///< the least of all ranks' devices
  Features features;
};
/// Whether NCCL can run the call on so many ranks, or the first reason why not.
Availability can_run(const CollectiveDesc& desc, const Abilities& abilities, int ranks);

}  // namespace sinew::nccl
