#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <new>
#include <vector>

#include <sinew/core/system/thread_bias.hpp>

namespace sinew {

constinit thread_local ThreadMark* thread_mark = nullptr;

namespace {

std::mutex revoking;
/// The owner while another thread finds out whether the real one is inside.
constinit ThreadMark nobody;

bool membarrier(int command) noexcept { return syscall(SYS_membarrier, command, 0, 0) == 0; }

/// The marks of threads that have ended. A thread that gets one of them gets the biases of the ended thread, too.
class FreeMarks {
 public:
  ThreadMark* take() noexcept {
    {
      const std::scoped_lock lock(mutex_);
      if (!marks_.empty()) {
        ThreadMark* mark = marks_.back();
        marks_.pop_back();
        return mark;
      }
    }
    return new (std::nothrow) ThreadMark;
  }
  void give_back(ThreadMark* mark) noexcept {
    if (mark->inside.load(std::memory_order_relaxed) != nullptr) return;  // the thread ended within a call
    const std::scoped_lock lock(mutex_);
    try {
      marks_.push_back(mark);
    } catch (const std::bad_alloc&) {  // the mark stays unused
    }
  }

 private:
  std::mutex mutex_;
  std::vector<ThreadMark*> marks_;
};

FreeMarks& free_marks() {
  static auto& marks = *new FreeMarks;  // is not destroyed while threads of the process still end
  return marks;
}

/// Gives the mark back when the thread ends.
struct MarkOfThread {
  bool ended = false;
  ~MarkOfThread() {
    ended = true;
    if (thread_mark == nullptr) return;
    free_marks().give_back(thread_mark);
    thread_mark = nullptr;
  }
};
thread_local MarkOfThread mark_of_thread;

}  // namespace

void ThreadBias::give() noexcept {
  static const bool can_revoke = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  if (!can_revoke || mark_of_thread.ended) return;
  if (thread_mark == nullptr) thread_mark = free_marks().take();
  owner_.store(thread_mark, std::memory_order_relaxed);
}

bool ThreadBias::take_away() noexcept {
  const std::scoped_lock lock(revoking);
  ThreadMark* const owner = owner_.load(std::memory_order_relaxed);
  if (owner == nullptr) return true;
  owner_.store(&nobody, std::memory_order_relaxed);
  // From the barrier on, a thread that enters sees that it is not the owner, and its mark is seen here if it entered
  // before. If the kernel refuses the barrier, the thread may be inside.
  const bool seen = owner == thread_mark || membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  const bool inside = !seen || owner->inside.load(std::memory_order_acquire) == this;
  owner_.store(inside ? owner : nullptr, std::memory_order_release);
  return !inside;
}

void ThreadBias::forget() noexcept {
  owner_.store(nullptr, std::memory_order_relaxed);
  if (thread_mark != nullptr && thread_mark->inside.load(std::memory_order_relaxed) == this) leave();
}

}  // namespace sinew
