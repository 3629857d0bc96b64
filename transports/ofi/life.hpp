#pragma once

namespace sinew::ofi {

/// `life`: readable once the process has ended; -1: nobody knows, and it counts as alive. Cost: a system call.
bool has_ended(int life) noexcept;

}  // namespace sinew::ofi
