#pragma once

#include <atomic>
#include <cstdint>

#include <sinew/core/export.hpp>

namespace sinew {

/// How many forks lie between this process and the first of its line that asked: what was made under another count
/// belongs to an ancestor. Cost: one load; the count is kept by a handler of pthread_atfork.
SINEW_API extern std::atomic<std::uint32_t> fork_count;

}  // namespace sinew
