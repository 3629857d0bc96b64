#include <pthread.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

#include <sinew/core/base/process_lock.hpp>

namespace sinew {
namespace {

constexpr std::size_t kLocks = static_cast<std::size_t>(OfProcess::Log) + 1;
constexpr auto kForkWaits = std::chrono::seconds(1);  // for all locks together
constexpr auto kForkLooksAgain = std::chrono::microseconds(100);

constexpr pthread_mutex_t kUnlocked = PTHREAD_MUTEX_INITIALIZER;

// The locks are not statics of a function. The guard of such a static would stay held in a child that is made while
// another thread makes the static.
constinit std::array<pthread_mutex_t, kLocks> process_locks = [] {
  std::array<pthread_mutex_t, kLocks> all{};
  all.fill(kUnlocked);
  return all;
}();

// Each number has one bit for each lock.
constinit thread_local std::uint32_t locks_held = 0;           // the locks that this thread holds
constinit thread_local std::uint32_t locks_held_for_fork = 0;  // the others that it took for a fork
static_assert(kLocks <= 32);

std::uint32_t bit_of(std::size_t lock) noexcept { return std::uint32_t{1} << lock; }

bool is_lock_taken_before(std::size_t lock, std::chrono::steady_clock::time_point until) noexcept {
  while (pthread_mutex_trylock(&process_locks[lock]) != 0) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(kForkLooksAgain);
  }
  return true;
}

void take_all() noexcept {
  const auto until = std::chrono::steady_clock::now() + kForkWaits;
  locks_held_for_fork = 0;
  for (std::size_t i = 0; i < kLocks; ++i) {
    if ((locks_held & bit_of(i)) == 0 && is_lock_taken_before(i, until)) locks_held_for_fork |= bit_of(i);
  }
}

void give_all() noexcept {
  for (std::size_t i = 0; i < kLocks; ++i) {
    if ((locks_held_for_fork & bit_of(i)) != 0) pthread_mutex_unlock(&process_locks[i]);
  }
}

/// Runs in the child, which has only the thread that forked. Locks that this thread holds stay locked. Locks that other
/// threads of the parent hold are made anew.
void free_all() noexcept {
  give_all();
  for (std::size_t i = 0; i < kLocks; ++i) {
    if (((locks_held | locks_held_for_fork) & bit_of(i)) == 0) process_locks[i] = kUnlocked;
  }
}

[[maybe_unused]] const int guards_forks = pthread_atfork(take_all, give_all, free_all);

}  // namespace

ProcessLock::ProcessLock(OfProcess what) noexcept : what_(what) {
  const auto lock = static_cast<std::size_t>(what_);
  pthread_mutex_lock(&process_locks[lock]);
  locks_held |= bit_of(lock);
}

ProcessLock::~ProcessLock() {
  const auto lock = static_cast<std::size_t>(what_);
  locks_held &= ~bit_of(lock);
  pthread_mutex_unlock(&process_locks[lock]);
}

}  // namespace sinew
