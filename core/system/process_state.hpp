#pragma once

#include <sys/types.h>

#include <string>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// The content of /proc/PID/stat from the state letter on. The process's name, which stands before this letter, is left
/// out because it may contain any character. Empty if the process does not exist or may not be read.
SINEW_API std::string stat_of_process(pid_t process);

/// The state letter in /proc/PID/stat: R, S, D, T (stopped), t (traced) or Z (zombie). 0 if the process does not exist
/// or may not be read.
SINEW_API char state_of_process(pid_t process);

/// Is this the state letter of a stopped process? None of its threads runs until the process is continued.
inline bool is_stopped(char state_of_process) noexcept { return state_of_process == 'T' || state_of_process == 't'; }

}  // namespace sinew
