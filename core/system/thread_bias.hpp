#pragma once

#include <atomic>

#include <sinew/core/base/export.hpp>

namespace sinew {

class ThreadBias;

/// The object that a thread is inside of by its bias. Only this thread writes it.
struct alignas(64) ThreadMark {
  std::atomic<const ThreadBias*> inside{nullptr};
};

/// The mark of the calling thread, or null if no object was ever biased to it.
[[gnu::tls_model("initial-exec")]] SINEW_API extern constinit thread_local ThreadMark* thread_mark;

/// Lets one thread use an object without a locked instruction, as a biased lock does. The thread marks by plain stores
/// that it is inside. Another thread must first take the bias away, with a system call that makes the stores of all
/// threads visible (membarrier). After that the object has no bias any more, and threads keep each other out by other
/// means (UseWord).
/// Thread: any.
/// Cost:   enter() and leave() are two loads of the object, and two stores and two loads of the thread's own memory.
///         revoke() takes microseconds the first time, and one load from then on.
class ThreadBias {
 public:
  ThreadBias() = default;
  ThreadBias(const ThreadBias&) = delete;
  ThreadBias& operator=(const ThreadBias&) = delete;

  /// Biases the object to the calling thread. Does nothing if the kernel refuses membarrier.
  /// Precondition: no other thread can reach the object yet.
  SINEW_API void give() noexcept;

  /// Enters if the object is biased to the calling thread, which is inside no other object by its bias.
  bool enter() noexcept {
    ThreadMark* const mine = thread_mark;
    if (mine == nullptr || owner_.load(std::memory_order_relaxed) != mine) return false;
    if (mine->inside.load(std::memory_order_relaxed) != nullptr) return false;
    mine->inside.store(this, std::memory_order_relaxed);
    // The owner is read again after the store. The CPU may read it before others see the store: revoke() makes up for
    // that by membarrier, so that this thread needs no fence.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (owner_.load(std::memory_order_relaxed) == mine) [[likely]]
      return true;
    leave();
    return false;
  }
  /// Leaves after enter() returned true.
  static void leave() noexcept { thread_mark->inside.store(nullptr, std::memory_order_release); }

  /// Takes the bias away for good. Returns false, and leaves the bias, if its thread is inside.
  bool revoke() noexcept { return owner_.load(std::memory_order_acquire) == nullptr || take_away(); }
  /// Takes the bias away in a child of fork, even if its thread was inside when the process forked. That thread may be
  /// the one that forked. Otherwise it is not there in the child.
  SINEW_API void forget() noexcept;

 private:
  SINEW_API bool take_away() noexcept;

  std::atomic<ThreadMark*> owner_{nullptr};
};

}  // namespace sinew
