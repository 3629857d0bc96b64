#pragma once

#include <sys/types.h>

#include <string>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// How a process that has just ended did so, as far as the kernel tells: "killed by signal 9 (Killed)", "exited with
/// code 3", or "ended". It is known until its parent has asked, and with Linux 6.15 afterwards.
SINEW_API std::string how_it_ended(int pidfd, pid_t process);

}  // namespace sinew
