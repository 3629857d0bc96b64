#include <pthread.h>
#include <unistd.h>

#include <future>
#include <utility>

#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/net/control_thread.hpp>
#include <sinew/core/system/thread_without_signals.hpp>

namespace sinew {
namespace {

/// The control thread of this process, while there is one. A fork's child inherits this memory, but not the thread. So
/// it makes its own thread.
struct KnownThread {
  std::weak_ptr<ControlThread> thread;
  pid_t process = 0;
};

KnownThread& known_thread() {
  static KnownThread one;
  return one;
}

}  // namespace

std::shared_ptr<ControlThread> ControlThread::of_process() {
  const ProcessLock lock(OfProcess::ControlThread);
  auto thread = known_thread().thread.lock();
  if (!thread || known_thread().process != ::getpid()) {
    thread = std::shared_ptr<ControlThread>(new ControlThread);
    known_thread().thread = thread;
    known_thread().process = ::getpid();
  }
  return thread;
}

ControlThread::ControlThread() {
  thread_ = thread_without_signals([this] { loop_.run(); });
  pthread_setname_np(thread_.native_handle(), "sinew-control");
}

ControlThread::~ControlThread() {
  if (fork_.in_child()) {
    thread_.detach();
    return;
  }
  loop_.stop();
  thread_.join();
}

void ControlThread::post(Call call, const void* owner) {
  if (fork_.in_child()) return;
  {
    const std::scoped_lock lock(mutex_);
    posted_.push_back({owner, std::move(call)});
  }
  loop_.post([this] { run_first_posted(); });
}

/// Runs the oldest call of post(). There may be none, since forget() removes calls.
void ControlThread::run_first_posted() {
  Call call;
  {
    const std::scoped_lock lock(mutex_);
    if (posted_.empty()) return;
    call = std::move(posted_.front().call);
    posted_.pop_front();
  }
  call();
}

void ControlThread::run(const Call& call) {
  if (fork_.in_child()) return;
  if (std::this_thread::get_id() == thread_.get_id()) return call();
  std::packaged_task<void()> task(call);
  std::future<void> over = task.get_future();
  post([&task] { task(); });
  over.get();
}

void ControlThread::watch(int descriptor, EventLoop::Interest interest, Call ready) {
  watches_[descriptor] = loop_.watch(descriptor, interest, std::move(ready));
}

void ControlThread::change(int descriptor, EventLoop::Interest interest) {
  if (const auto at = watches_.find(descriptor); at != watches_.end()) at->second.want(interest);
}

void ControlThread::at(Clock::time_point when, const void* owner, Call call) {
  const auto timer = timers_.insert(timers_.end(), Timer{owner, EventLoop::Timer(loop_)});
  timer->timer.start(when, [this, timer, call = std::move(call)] {
    timers_.erase(timer);
    call();
  });
}

void ControlThread::forget(const void* owner) noexcept {
  timers_.remove_if([owner](const Timer& t) { return t.owner == owner; });
  const std::scoped_lock lock(mutex_);
  std::erase_if(posted_, [owner](const Posted& p) { return p.owner == owner; });
}

}  // namespace sinew
