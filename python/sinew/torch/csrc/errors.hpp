#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>

#include <sinew/core/error.hpp>

namespace sinew::torch_backend {

/// The exception that a failed status stands for: c10::DistBackendError, which Python sees as
/// torch.distributed.DistBackendError, with sinew's verdict as its text. `doing` names the operation.
/// The text of a timeout begins with "Timed out".
c10::DistBackendError error_of(const Status& status, const std::string& doing);

/// Throws error_of() unless the status is Ok.
void require(const Status& status, const char* doing);

/// Throws ValueError for an argument that sinew rejected and error_of() for every other error.
/// Call it in a handler of sinew::Error.
[[noreturn]] void rethrow(const Error& error, const char* doing);

/// Throws what Python sees as RuntimeError, as Gloo does: "SinewBackend::allreduce: invalid root rank: 7".
[[noreturn]] void reject(const char* function, const std::string& why);

/// Calls `run` and turns sinew::Error into an exception of torch.
template <class Run>
decltype(auto) translated(const char* doing, Run&& run) {
  try {
    return run();
  } catch (const Error& e) {
    rethrow(e, doing);
  }
}

}  // namespace sinew::torch_backend
