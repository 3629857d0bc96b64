#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <ctime>

#include <sinew/core/system/futex.hpp>

namespace sinew {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Deadline deadline) noexcept {
  timespec until{};
  const bool timed = deadline.given() && deadline.at() != Clock::time_point::max();
  if (timed) {
    // steady_clock is CLOCK_MONOTONIC, which FUTEX_WAIT_BITSET takes as an absolute time.
    const auto since_boot = deadline.at().time_since_epoch();
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(since_boot);
    until.tv_sec = whole.count();
    until.tv_nsec = std::chrono::nanoseconds(since_boot - whole).count();
  }
  ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected, timed ? &until : nullptr, nullptr,
            FUTEX_BITSET_MATCH_ANY);
}

void futex_wake(std::atomic<std::uint32_t>& word, int threads) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
}

}  // namespace sinew
