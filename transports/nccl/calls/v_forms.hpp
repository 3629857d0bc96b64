#pragma once

#include <sinew/transports/nccl/calls/grouped.hpp>
#include <sinew/transports/nccl/calls/nccl_call.hpp>

namespace sinew::nccl {

/// The v-forms, for which NCCL has no functions: groups of functions that it has. As issue(); nothing is sent for parts
/// that are empty.
Result issue_v(const Caller& caller, const NcclCall& call, RedOp op);

}  // namespace sinew::nccl
