#pragma once

#include <sinew/transports/nccl/calls/grouped.hpp>
#include <sinew/transports/nccl/calls/nccl_call.hpp>
#include <sinew/transports/nccl/library/features.hpp>

namespace sinew::nccl {

/// The names of the NCCL functions that run such a call, as users read them in a plan.
const char* way_of(Collective collective, const Features& features) noexcept;

/// Calls NCCL's functions for a call. `op`: the call's operator; ignored if the call does not reduce.
/// Returns Success or InProgress if NCCL has accepted the call.
Result issue(const Caller& caller, const Features& features, const NcclCall& call, RedOp op);

}  // namespace sinew::nccl
