#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <future>
#include <utility>

#include <sinew/collectives/control/control_thread.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/system/quiet_thread.hpp>

namespace sinew {
namespace {

constexpr int kLongestSleepMs = 60'000;

/// The living thread of this process. A child of fork inherits the memory but not the thread, so it makes its own.
struct KnownThread {
  std::mutex mutex;
  std::weak_ptr<ControlThread> thread;
  pid_t process = 0;
};

KnownThread& known_thread() {
  static KnownThread one;
  return one;
}

}  // namespace

std::shared_ptr<ControlThread> ControlThread::of_process() {
  const std::scoped_lock lock(known_thread().mutex);
  auto thread = known_thread().thread.lock();
  if (!thread || known_thread().process != ::getpid()) {
    thread = std::shared_ptr<ControlThread>(new ControlThread);
    known_thread().thread = thread;
    known_thread().process = ::getpid();
  }
  return thread;
}

ControlThread::ControlThread()
    : process_(::getpid()), epoll_(::epoll_create1(EPOLL_CLOEXEC)), event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_ || !event_) throw_errno("a descriptor for the control thread");
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, event_.get(), &event) != 0) throw_errno("epoll_ctl");
  thread_ = quiet_thread([this] { loop(); });
  pthread_setname_np(thread_.native_handle(), "sinew-control");
}

ControlThread::~ControlThread() {
  if (process_ != ::getpid()) {
    thread_.detach();
    return;
  }
  post([this] { stop_ = true; });
  thread_.join();
}

void ControlThread::post(Call call, const void* owner) {
  {
    const std::scoped_lock lock(mutex_);
    posted_.push_back({owner, std::move(call)});
  }
  const std::uint64_t one = 1;
  static_cast<void>(!::write(event_.get(), &one, sizeof one));
}

void ControlThread::run(const Call& call) {
  std::packaged_task<void()> task(call);
  std::future<void> over = task.get_future();
  post([&task] { task(); });
  over.get();
}

void ControlThread::watch(int descriptor, std::uint32_t events, Ready ready) {
  watched_[watch_file(descriptor, events, std::move(ready))]->descriptor = descriptor;
}

std::uint64_t ControlThread::watch_file(int descriptor, std::uint32_t events, Ready ready) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = ++last_id_;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) throw_errno("epoll_ctl");
  watched_[last_id_] = std::make_shared<Watched>(Watched{-1, std::move(ready)});
  return last_id_;
}

void ControlThread::unwatch_file(std::uint64_t watch) noexcept { watched_.erase(watch); }

void ControlThread::change(int descriptor, std::uint32_t events) {
  for (const auto& [id, w] : watched_) {
    if (w->descriptor != descriptor) continue;
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, descriptor, &event);
  }
}

void ControlThread::unwatch(int descriptor) noexcept {
  const auto of = [descriptor](const auto& entry) { return entry.second->descriptor == descriptor; };
  if (std::erase_if(watched_, of) > 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
}

void ControlThread::at(Clock::time_point when, const void* owner, Call call) {
  timers_.emplace(when, Timer{owner, std::move(call)});
}

void ControlThread::forget(const void* owner) noexcept {
  std::erase_if(timers_, [owner](const auto& entry) { return entry.second.owner == owner; });
  const std::scoped_lock lock(mutex_);
  std::erase_if(posted_, [owner](const Posted& p) { return p.owner == owner; });
}

int ControlThread::timeout_ms() const noexcept {
  return timers_.empty() ? kLongestSleepMs : Deadline(timers_.begin()->first).left_ms(kLongestSleepMs);
}

void ControlThread::run_posted() {
  std::uint64_t count = 0;
  static_cast<void>(!::read(event_.get(), &count, sizeof count));
  while (true) {
    Call call;
    {
      const std::scoped_lock lock(mutex_);
      if (posted_.empty()) return;
      call = std::move(posted_.front().call);
      posted_.pop_front();
    }
    call();
  }
}

void ControlThread::run_timers() {
  const auto now = Clock::now();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const Call call = std::move(timers_.begin()->second.call);
    timers_.erase(timers_.begin());
    call();
  }
}

void ControlThread::loop() {
  std::array<epoll_event, 16> events;
  while (!stop_) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms());
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      const std::uint64_t key = event.data.u64;  // a copy, because the field of the packed struct may be misaligned
      if (key == 0) {
        run_posted();
      } else if (const auto at = watched_.find(key); at != watched_.end()) {
        const std::shared_ptr<Watched> held = at->second;  // it may unwatch itself
        held->ready(event.events);
      }
    }
    run_timers();
  }
}

}  // namespace sinew
