#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include <sinew/core/error.hpp>
#include <sinew/transports/tcp/poller.hpp>

namespace sinew::tcp {
namespace {

constexpr auto kTick = std::chrono::milliseconds(50);

epoll_event interest(Handler* handler, bool want_write) {
  epoll_event e{};
  e.events = EPOLLIN | (want_write ? EPOLLOUT : 0u);
  e.data.ptr = handler;
  return e;
}

}  // namespace

Poller::Poller()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (!epoll_ || !timer_) throw_errno("tcp: epoll or timer descriptor");
  epoll_event e = interest(nullptr, false);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, timer_.get(), &e) != 0) throw_errno("tcp: watching the timer");
}

int Poller::add(int socket, Handler& handler, bool want_write) noexcept {
  epoll_event e = interest(&handler, want_write);
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &e) == 0 ? 0 : errno;
}

void Poller::want_write(int socket, Handler& handler, bool want) noexcept {
  epoll_event e = interest(&handler, want);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket, &e);
}

void Poller::remove(int socket, Handler& handler) noexcept {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket, nullptr);
  for (int i = batch_at_; i < batch_end_; ++i) {
    if (batch_[static_cast<std::size_t>(i)].data.ptr == &handler) batch_[static_cast<std::size_t>(i)].events = 0;
  }
}

void Poller::add_timed(Timed& timed) {
  if (timed_.empty()) run_clock(true);
  timed_.push_back(&timed);
}

void Poller::remove_timed(Timed& timed) noexcept {
  const auto at = std::ranges::find(timed_, &timed);
  if (at == timed_.end()) return;
  if (static_cast<std::size_t>(at - timed_.begin()) < timed_at_) --timed_at_;
  timed_.erase(at);
  if (timed_.empty()) run_clock(false);
}

void Poller::run_clock(bool on) noexcept {
  const auto ns = on ? std::chrono::nanoseconds(kTick).count() : 0;
  const itimerspec when{{0, ns}, {0, ns}};
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

void Poller::tick() {
  std::uint64_t expirations = 0;
  if (::read(timer_.get(), &expirations, sizeof expirations) < 0) return;
  const auto now = Clock::now();
  for (timed_at_ = 0; timed_at_ < timed_.size();) timed_[timed_at_++]->tick(now);
}

int Poller::poll() {
  const int count = ::epoll_wait(epoll_.get(), batch_.data(), static_cast<int>(batch_.size()), 0);
  if (count <= 0) return 0;
  batch_end_ = count;
  for (batch_at_ = 0; batch_at_ < batch_end_;) {
    const epoll_event e = batch_[static_cast<std::size_t>(batch_at_++)];
    if (e.events == 0) continue;
    if (e.data.ptr == nullptr) {
      tick();
    } else {
      static_cast<Handler*>(e.data.ptr)->ready((e.events & ~EPOLLOUT) != 0, (e.events & EPOLLOUT) != 0);
    }
  }
  batch_end_ = 0;
  return count;
}

bool Poller::anything_ready() const noexcept {
  pollfd p{epoll_.get(), POLLIN, 0};
  return ::poll(&p, 1, 0) > 0;
}

}  // namespace sinew::tcp
