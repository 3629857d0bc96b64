#include "event_loop.hpp"

#include <sys/epoll.h>

#include <array>
#include <cerrno>

#include <sinew/core/error.hpp>

namespace sinew::run {

EventLoop::EventLoop() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw_errno("making an event loop");
}

void EventLoop::add(int descriptor, std::function<void()> ready, Until until) {
  epoll_event event{};
  event.events = until == Until::Readable ? EPOLLIN : EPOLLOUT;
  event.data.u64 = next_id_;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
    if (errno == EPERM && until == Until::Writable) return;
    throw_errno("watching a descriptor");
  }
  watches_[descriptor] = {next_id_, event.events};
  callbacks_[next_id_++] = std::make_shared<std::function<void()>>(std::move(ready));
}

void EventLoop::pause(int descriptor, bool on) {
  const auto it = watches_.find(descriptor);
  if (it == watches_.end()) return;
  epoll_event event{};
  event.events = on ? EPOLLONESHOT : it->second.events;  // once: a hang-up would come again and again
  event.data.u64 = it->second.id;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, descriptor, &event);
}

void EventLoop::remove(int descriptor) {
  const auto it = watches_.find(descriptor);
  if (it == watches_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
  callbacks_.erase(it->second.id);
  watches_.erase(it);
}

void EventLoop::run_once(int wait_ms) {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t id =
        events[static_cast<std::size_t>(i)].data.u64;  // a copy: the packed field may be misaligned
    const auto it = callbacks_.find(id);
    if (it == callbacks_.end()) continue;  // removed by an earlier callback
    const auto callback = it->second;
    (*callback)();
  }
}

}  // namespace sinew::run
