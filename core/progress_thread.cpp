#include <sys/eventfd.h>
#include <unistd.h>

#include <future>
#include <utility>

#include <sinew/core/error.hpp>
#include <sinew/core/progress_thread.hpp>
#include <sinew/core/quiet_thread.hpp>

namespace sinew {

CallQueue::CallQueue() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) throw_errno("eventfd");
}

void CallQueue::post(std::function<void()> call) {
  {
    const std::scoped_lock lock(mutex_);
    calls_.push_back(std::move(call));
    waiting_.store(true, std::memory_order_release);
  }
  const std::uint64_t one = 1;
  static_cast<void>(!::write(event_.get(), &one, sizeof one));
}

int CallQueue::progress() noexcept {
  std::vector<std::function<void()>> calls;
  {
    const std::scoped_lock lock(mutex_);
    calls.swap(calls_);
    waiting_.store(false, std::memory_order_release);
  }
  for (const auto& call : calls) call();
  return static_cast<int>(calls.size());
}

void CallQueue::disarm() noexcept {
  std::uint64_t count = 0;
  static_cast<void>(!::read(event_.get(), &count, sizeof count));
}

ProgressThread::ProgressThread(Engine& engine) : engine_(engine) {
  engine_.add(queue_);
  thread_ = quiet_thread([this] { loop(); });
}

ProgressThread::~ProgressThread() {
  queue_.post([this] { stop_.store(true, std::memory_order_relaxed); });
  thread_.join();
  engine_.remove(queue_);
}

void ProgressThread::loop() {
  engine_.wait([this] { return stop_.load(std::memory_order_relaxed); }, Deadline::never(), {});
}

void ProgressThread::run(const std::function<void()>& call) {
  std::packaged_task<void()> task(call);
  std::future<void> over = task.get_future();
  post([&task] { task(); });
  over.get();
}

}  // namespace sinew
