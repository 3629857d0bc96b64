#pragma once

#include <atomic>

#include <sinew/core/base/process_lock.hpp>

namespace sinew {

/// A constant of the process that is made when it is first asked for, and never destroyed. Unlike a function's static
/// it can be used in a child of fork() that was made while another thread made it.
/// Thread: any. A `make` must not ask for another such constant.
/// Cost:   one load once it is made.
template <class T>
class MadeOnce {
 public:
  constexpr MadeOnce() noexcept = default;
  MadeOnce(const MadeOnce&) = delete;
  MadeOnce& operator=(const MadeOnce&) = delete;

  /// Returns the constant. The first call makes it by `make()`.
  template <class Make>
  const T& get(Make make) {
    if (const T* made = made_.load(std::memory_order_acquire)) return *made;
    const ProcessLock lock(OfProcess::Constants);
    const T* made = made_.load(std::memory_order_relaxed);
    if (made == nullptr) {
      made = new T(make());
      made_.store(made, std::memory_order_release);
    }
    return *made;
  }

 private:
  std::atomic<const T*> made_ = nullptr;
};

}  // namespace sinew
