#pragma once

#include <string>

namespace sinew::abuse {

/// Where a rank can be killed.
enum class Moment { Start, Idle, Collective, Split, Shrink, Step };

inline constexpr const char* kMomentNames[] = {"start", "idle", "collective", "split", "shrink", "step"};

/// One rank of a job of which one is killed: stays in the moment until it knows of the death, and tells the board what
/// it knows; then shrinks the World and makes a hundred checked sums. Returns the exit code.
int run_victim(const std::string& board, Moment moment);

}  // namespace sinew::abuse
