#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

#include <sinew/core/base/export.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/runtime/engine.hpp>
#include <sinew/core/runtime/engine_lock.hpp>

namespace sinew {

/// Who makes progress in a World that several threads use.
///
/// One lock is around the engine. A thread starts a call under the lock and makes one turn of progress. A thread that
/// waits drives the engine if nobody else does; otherwise it sleeps until its own call has ended, or until the driver
/// leaves and it has to take over. A driver unlocks between two turns if another thread wants the lock, and while it
/// sleeps itself. A thread of this object's own makes progress while nobody waits: it naps between its turns for a
/// while after the last call, so that the next call need not wake it, and sleeps on the sources' descriptors later.
/// While calls keep coming, or another thread drives, the naps grow. Each call makes a turn itself, and a thread that
/// wakes up would take the core and the lock from a caller that is about to wait.
///
/// No code of the user runs under the lock, except a reduction operator of the user's own.
class SINEW_API SharedProgress {
 public:
  /// From now on threads use `engine`, and whatever its sources touch, only while they hold the lock.
  explicit SharedProgress(Engine& engine);
  SharedProgress(const SharedProgress&) = delete;
  SharedProgress& operator=(const SharedProgress&) = delete;
  ~SharedProgress();

  void start_thread();
  /// Ends the thread. From then on only threads that wait make progress. The lock stays usable.
  void stop_thread() noexcept;

  /// Holds the lock for as long as it lives. Does nothing for a null pointer.
  class Hold {
   public:
    explicit Hold(SharedProgress* shared) noexcept : shared_(shared) {
      if (shared_ != nullptr) shared_->lock_.lock();
    }
    ~Hold() {
      if (shared_ != nullptr) shared_->lock_.unlock();
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    SharedProgress* shared_;
  };

  /// Inside a Hold: releases the lock for as long as it lives.
  class Release {
   public:
    explicit Release(SharedProgress* shared) noexcept : shared_(shared) {
      if (shared_ != nullptr) shared_->lock_.unlock();
    }
    ~Release() {
      if (shared_ != nullptr) shared_->lock_.lock();
    }
    Release(const Release&) = delete;
    Release& operator=(const Release&) = delete;

   private:
    SharedProgress* shared_;
  };

  // The caller of the functions below holds the lock.

  /// A call is pending from now on.
  void opened() noexcept { ++pending_; }
  /// A call has been started. `waits_at_once`: its caller waits for it next, so the thread need not be woken.
  void posted(bool waits_at_once) noexcept;
  /// One turn of progress, unless another thread drives.
  void turn() noexcept {
    if (!is_driven()) engine_.progress_all();
  }
  /// A call has ended: wakes the thread that sleeps for it.
  void ended(const void* call) noexcept;

  /// Waits until done(); false when the deadline passes first. A deadline not given is `default_timeout` from now.
  /// `call`: the call whose end makes done() true; null if done() waits for something else.
  template <class Done>
  bool wait(Done&& done, const void* call, Deadline deadline, Duration default_timeout) {
    if (done()) return true;
    bool over = false;
    bool in_time = true;
    while (!over && in_time && is_driven()) {
      deadline = deadline.or_after(default_timeout);
      in_time = sleep(call, deadline);
      over = done();
    }
    if (!over && in_time) {
      driven_.store(true, std::memory_order_relaxed);
      engine_.disarm();
      over = engine_.wait<true>(done, deadline, default_timeout);
      driven_.store(false, std::memory_order_relaxed);
    }
    // Also after a sleep: the driver may have left and chosen this thread, whose own call has ended meanwhile.
    if (!is_driven()) hand_on();
    return over;
  }

 private:
  /// A waiting thread that does not drive.
  struct Sleeper {
    const void* call;
    Sleeper* next;
    std::atomic<std::uint32_t> woken{0};
  };
  enum class Rest : std::uint8_t { None, Nap, Futex, Sleep };

  bool is_driven() const noexcept { return driven_.load(std::memory_order_relaxed); }
  /// false: the deadline has passed.
  bool sleep(const void* call, Deadline deadline) noexcept;
  static void wake(Sleeper& sleeper) noexcept;
  /// The driver leaves: wakes a sleeping waiter, which takes over, or else the thread.
  void hand_on() noexcept;
  void wake_thread() noexcept;
  void loop() noexcept;
  void nap() noexcept;
  void sleep_on_futex() noexcept;
  void wake() noexcept;

  Engine& engine_;
  EngineLock lock_;
  std::atomic<bool> driven_{false};  ///< by a thread that waits; written under the lock
  bool stop_ = false;
  Rest rest_ = Rest::None;               ///< the thread's
  std::size_t pending_ = 0;              ///< calls
  std::atomic<std::uint64_t> posts_{0};  ///< calls whose callers did not wait at once; written under the lock
  Sleeper* sleepers_ = nullptr;
  std::atomic<std::uint32_t> sleeping_{0};
  std::thread thread_;
};

}  // namespace sinew
