#pragma once

#include <atomic>
#include <cstdint>

#include <sinew/core/deadline.hpp>

namespace sinew {

/// Sleeps while `word` is `expected`, until futex_wake() or the deadline. May return early.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                Deadline deadline = Deadline::never()) noexcept;
/// Wakes up to `threads` threads that sleep on `word`.
void futex_wake(std::atomic<std::uint32_t>& word, int threads) noexcept;

}  // namespace sinew
