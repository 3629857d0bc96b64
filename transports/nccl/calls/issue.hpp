#pragma once

#include <sinew/transports/nccl/calls/grouped.hpp>
#include <sinew/transports/nccl/calls/nccl_call.hpp>
#include <sinew/transports/nccl/library/features.hpp>

namespace sinew::nccl {

/// The names of the NCCL functions that run such a call, for a person.
const char* way_of(Collective collective, const Features& features) noexcept;

/// `op`: made for the call; ignored where it does not reduce. Success and InProgress are good answers.
Result issue(const Caller& caller, const Features& features, const NcclCall& call, RedOp op);

}  // namespace sinew::nccl
