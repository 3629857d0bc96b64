#include <sched.h>

#include <sinew/core/host/cpu.hpp>
#include <sinew/core/runtime/engine_lock.hpp>
#include <sinew/core/system/futex.hpp>

namespace sinew {
namespace {

/// This many looks at the lock take about a microsecond, as long as a turn of progress.
constexpr int kLooks = 40;
/// The driver may share this core: then it needs the core to come to the end of its turn.
constexpr int kYields = 8;
/// A thread that sleeps on the lock needs tens of microseconds to wake up.
constexpr int kYieldsForOthers = 100;

}  // namespace

void EngineLock::lock_contended() noexcept {
  waiting_.fetch_add(1, std::memory_order_relaxed);
  bool locked = false;
  for (int i = 0; i < kLooks && !locked; ++i) {
    cpu_relax();
    locked = word_.load(std::memory_order_relaxed) == kFree && try_lock();
  }
  for (int i = 0; i < kYields && !locked; ++i) {
    ::sched_yield();
    locked = try_lock();
  }
  while (!locked) {
    locked = word_.exchange(kHeldAndSlept, std::memory_order_acquire) == kFree;
    if (!locked) futex_wait(word_, kHeldAndSlept);
  }
  waiting_.fetch_sub(1, std::memory_order_relaxed);
}

void EngineLock::wake_one() noexcept { futex_wake(word_, 1); }

void EngineLock::give_way() noexcept {
  unlock();
  for (int i = 0; wanted() && i < kLooks + kYieldsForOthers; ++i) {
    if (i < kLooks) {
      cpu_relax();
    } else {
      ::sched_yield();
    }
  }
  lock();
}

}  // namespace sinew
