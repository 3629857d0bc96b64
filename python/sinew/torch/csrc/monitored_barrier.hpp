#pragma once

#include <chrono>

#include "group.hpp"

namespace sinew::torch_backend {

/// A barrier in which rank 0 finds out who is missing. Every other rank sends it a message and waits for its answer.
/// `all_missing`: rank 0 waits for every rank before it names those that are missing; else it names the first one.
/// The texts of the errors are those of torch's Gloo backend, as programs look for them.
/// Errors: DistBackendError. The process group has then ended on all ranks, as the ranks do not agree any more.
void monitored_barrier(Group& group, std::chrono::milliseconds timeout, bool all_missing);

}  // namespace sinew::torch_backend
