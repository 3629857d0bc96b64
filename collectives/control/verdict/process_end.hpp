#pragma once

#include <sys/types.h>

#include <string>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// How a process that has just ended did so, as far as the kernel tells: "killed by signal 9 (Killed)", "exited with
/// code 3", or "ended". It is known until its parent has asked, and with Linux 6.15 afterwards.
SINEW_API std::string how_it_ended(int pidfd, pid_t process);

/// The letter of its state in /proc: R, S, D, T (stopped), t (traced), Z (ended); 0: no such process, or not ours to
/// see.
SINEW_API char state_of_process(pid_t process);

}  // namespace sinew
