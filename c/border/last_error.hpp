#pragma once

#include <type_traits>

#include <sinew/c/types.h>
#include <sinew/core/error.hpp>

namespace sinew::c {

/// Keeps a failure as the last one of this thread, and returns its status for the caller.
sinew_status keep_error(const Status& failure) noexcept;
/// Does the same with the exception that is being handled.
sinew_status keep_current_exception() noexcept;

/// The code of the C++ API as a status. The numbers are the same.
constexpr sinew_status status_of(Code code) noexcept { return static_cast<sinew_status>(code); }
static_assert(status_of(Code::Ok) == SINEW_OK && status_of(Code::InvalidArgument) == SINEW_INVALID_ARGUMENT &&
              status_of(Code::PeerLost) == SINEW_PEER_LOST && status_of(Code::System) == SINEW_SYSTEM);

/// Keeps `outcome` if it is a failure. Returns its status.
inline sinew_status report(const Status& outcome) noexcept {
  const bool failed = !outcome.ok() && outcome.code() != Code::Pending;
  return failed ? keep_error(outcome) : status_of(outcome.code());
}

/// Runs the body of a function of the C API. An exception becomes a status and the last error of this thread, so none
/// leaves the library. `body` returns a sinew_status or nothing, which stands for SINEW_OK.
template <class Body>
sinew_status guarded(Body&& body) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      return SINEW_OK;
    } else {
      return body();
    }
  } catch (...) {
    return keep_current_exception();
  }
}

}  // namespace sinew::c
