#include <pthread.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <ctime>

#include <sinew/core/base/process_lock.hpp>

namespace sinew {
namespace {

constexpr std::size_t kLocks = static_cast<std::size_t>(OfProcess::Log) + 1;
constexpr std::time_t kForkWaits = 1;  // seconds, for all locks together

// No function's static: its guard, too, would stay held in a child that is made while another thread makes the static.
// A thread that forks while it holds a lock shall not wait for itself, so the kind is one that checks its owner.
constinit std::array<pthread_mutex_t, kLocks> locks = [] {
  std::array<pthread_mutex_t, kLocks> all{};
  all.fill(PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP);
  return all;
}();

constinit thread_local std::uint32_t held_for_fork = 0;  // a bit per lock
static_assert(kLocks <= 32);

pthread_mutex_t& lock_of(OfProcess what) noexcept { return locks[static_cast<std::size_t>(what)]; }

void take_all() noexcept {
  held_for_fork = 0;
  timespec until{};
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += kForkWaits;
  for (std::size_t i = 0; i < kLocks; ++i) {
    if (pthread_mutex_clocklock(&locks[i], CLOCK_MONOTONIC, &until) == 0) held_for_fork |= std::uint32_t{1} << i;
  }
}

void give_all() noexcept {
  for (std::size_t i = 0; i < kLocks; ++i) {
    if ((held_for_fork >> i & 1U) != 0) pthread_mutex_unlock(&locks[i]);
  }
}

/// In the child, whose only thread this is.
void free_all() noexcept { locks.fill(PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP); }

[[maybe_unused]] const int registered = pthread_atfork(take_all, give_all, free_all);

}  // namespace

ProcessLock::ProcessLock(OfProcess what) noexcept : what_(what) { pthread_mutex_lock(&lock_of(what_)); }

/// In a child that was made in this scope the lock is free already. That is an error to the mutex, and harmless.
ProcessLock::~ProcessLock() { pthread_mutex_unlock(&lock_of(what_)); }

}  // namespace sinew
