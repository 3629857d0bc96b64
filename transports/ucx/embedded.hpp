#pragma once

#include <string>

namespace sinew::ucx {

/// UCX as a guest: while one of these lives, what UCX logs on this thread goes to the log at level info instead of
/// standard output, unless the user set UCX_LOG_LEVEL. Cost: a thread-local counter.
class Embedded {
 public:
  Embedded() noexcept;
  ~Embedded();
  Embedded(const Embedded&) = delete;
  Embedded& operator=(const Embedded&) = delete;

  /// The first error that UCX logged since this began, or empty.
  static const std::string& first_error() noexcept;
};

/// Once per process: takes UCX's log lines, and takes back the handlers for SIGSEGV and others that libucs installs
/// while it is loaded, unless the user asked for them (UCX_HANDLE_ERRORS, UCX_ERROR_SIGNALS, UCX_DEBUG_SIGNO) or
/// somebody else in this process loaded it before.
void embed();

}  // namespace sinew::ucx
