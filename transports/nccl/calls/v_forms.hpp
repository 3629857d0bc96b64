#pragma once

#include <sinew/transports/nccl/calls/grouped.hpp>
#include <sinew/transports/nccl/calls/nccl_call.hpp>

namespace sinew::nccl {

/// Like issue(), for the v-forms. NCCL has no functions for v-forms. So each v-form is a group of broadcasts, of
/// reductions, or of messages: one for each part that is not empty.
Result issue_v(const Caller& caller, const NcclCall& call, RedOp op);

}  // namespace sinew::nccl
