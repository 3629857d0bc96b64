#pragma once

#include <sinew/transports/nccl/calls.hpp>

namespace sinew::nccl {

/// The v-forms, which NCCL has none of: groups of what it has. As issue(); nothing is sent for parts that are empty.
Result issue_v(const Caller& caller, const NcclCall& call, RedOp op);

}  // namespace sinew::nccl
