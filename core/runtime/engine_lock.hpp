#pragma once

#include <atomic>
#include <cstdint>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// The lock around the engine of a World that several threads use. The thread that makes progress holds the lock during
/// its turns. Between two turns it looks at wanted() and lets the threads in that want to start calls.
/// Cost: two locked instructions for lock() and unlock() without contention; a futex where a thread has to sleep.
class SINEW_API EngineLock {
 public:
  void lock() noexcept {
    if (!try_lock()) [[unlikely]]
      lock_contended();
  }
  bool try_lock() noexcept {
    std::uint32_t expected = kFree;
    return word_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void unlock() noexcept {
    if (word_.exchange(kFree, std::memory_order_release) == kHeldAndSlept) [[unlikely]]
      wake_one();
  }
  /// Does another thread wait for the lock?
  bool wanted() const noexcept { return waiting_.load(std::memory_order_relaxed) != 0; }
  /// Unlocks until the threads that wait have had the lock, and locks again.
  void give_way() noexcept;

 private:
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kHeld = 1;
  static constexpr std::uint32_t kHeldAndSlept = 2;  ///< a thread sleeps on the word, or may

  void lock_contended() noexcept;
  void wake_one() noexcept;

  std::atomic<std::uint32_t> word_{kFree};
  std::atomic<std::uint32_t> waiting_{0};
};

}  // namespace sinew
