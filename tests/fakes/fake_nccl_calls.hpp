#pragma once

#include "fakes/fake_nccl_process.hpp"

namespace sinew::nccl::fakes {

/// A call as it comes from outside.
Result call(const char* function, Request request, const void* from, void* to);
fake::Part part(Collective collective, std::size_t count, DataType type, RedOp op = RedOp::Sum, int root = 0);

}  // namespace sinew::nccl::fakes
