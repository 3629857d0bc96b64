#pragma once

#include <sys/types.h>

#include <string>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// /proc/PID/stat from the letter of the state on. The name before the letter is left out, as it may hold anything.
/// Empty if there is no such process, or if it is not ours to see.
SINEW_API std::string stat_of_process(pid_t process);

/// The letter of its state in /proc: R, S, D, T (stopped), t (traced), Z (ended); 0: no such process, or not ours to
/// see.
SINEW_API char state_of_process(pid_t process);

/// All threads of a stopped process stand still until it is continued.
inline bool is_stopped(char state_of_process) noexcept { return state_of_process == 'T' || state_of_process == 't'; }

}  // namespace sinew
