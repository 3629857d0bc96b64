#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include <sinew/core/error.hpp>
#include <sinew/core/runtime/engine.hpp>

namespace sinew {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// Waking a sleeper costs tens of microseconds: what a wait has already lasted bounds what that adds.
constexpr auto kSpinBeforeSleep = milliseconds(2);
constexpr auto kYieldBeforeSleep = microseconds(300);
constexpr auto kPacedBeforeSleep = microseconds(50);
constexpr auto kIdlePoll = microseconds(50);
constexpr auto kWatchPeriod = milliseconds(10);
constexpr int kYieldsPerClock = 8;
/// A yield that takes longer has let somebody else work.
constexpr auto kYieldAlone = microseconds(5);
/// Looking for a free core costs about 60 us.
constexpr auto kBetweenMoves = milliseconds(10);

}  // namespace

Engine::Engine(bool may_spin, double quota_share) : may_spin_(may_spin), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw_errno("epoll_create1");
  if (quota_share > 0 && quota_share < 1) pace_.emplace(quota_share);
}

void Engine::add(ProgressSource& source) {
  sources_.push_back(&source);
  const int fd = source.wake_descriptor();
  if (fd < 0) return;
  const auto known = std::ranges::find(descriptors_, fd, &Watched::descriptor);
  if (known != descriptors_.end()) {
    ++known->users;
    return;
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) throw_errno("epoll_ctl");
  descriptors_.push_back({fd, 1});
}

void Engine::remove(ProgressSource& source) {
  if (std::erase(sources_, &source) == 0) return;
  const auto known = std::ranges::find(descriptors_, source.wake_descriptor(), &Watched::descriptor);
  if (known == descriptors_.end() || --known->users > 0) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, known->descriptor, nullptr);
  descriptors_.erase(known);
}

void Engine::share(EngineLock& lock) {
  wake_up_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_up_) throw_errno("eventfd");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wake_up_.get();
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_up_.get(), &event) != 0) throw_errno("epoll_ctl");
  lock_ = &lock;
}

int Engine::progress_all() noexcept {
  int events = 0;
  for (std::size_t i = 0; i < sources_.size(); ++i) events += sources_[i]->progress();
  return events;
}

bool Engine::prepare_sleep() noexcept {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const bool must_poll = sources_[i]->active() && sources_[i]->wake_descriptor() < 0;
    if (!must_poll && sources_[i]->arm()) continue;
    for (std::size_t armed = 0; armed <= i; ++armed) sources_[armed]->disarm();
    return false;
  }
  return true;
}

void Engine::look(Clock::time_point now) {
  if (!watch_ || now - watched_ < kWatchPeriod) return;
  watched_ = now;
  watch_(now);
}

void Engine::after_sleep() noexcept {
  for (ProgressSource* s : sources_) s->disarm();
}

Engine::Slept Engine::sleep(Clock::time_point wake_by) {
  if (!prepare_sleep()) return progress_all() > 0 ? Slept::UntilEvents : Slept::NotAtAll;
  const std::uint64_t number = ++sleeps_;
  asleep_ = true;
  if (lock_ != nullptr) lock_->unlock();
  epoll_event events[8];
  ::epoll_wait(epoll_.get(), events, 8, Deadline(wake_by).left_ms(10));
  if (lock_ != nullptr) lock_->lock();
  if (number == sleeps_) {  // else another thread sleeps now: the sources are armed, and the bell rings, for that one
    disarm();
    if (rung_) {
      std::uint64_t rings = 0;
      static_cast<void>(!::read(wake_up_.get(), &rings, sizeof rings));
      rung_ = false;
    }
  }
  return progress_all() > 0 ? Slept::UntilEvents : Slept::WithoutEvents;
}

void Engine::yield() noexcept {
  if (lock_ != nullptr) lock_->unlock();
  ::sched_yield();
  if (lock_ != nullptr) lock_->lock();
}

void Engine::look_for_free_core() noexcept {
  thread_local Clock::time_point last{};
  const auto now = Clock::now();
  if (now - last < kBetweenMoves) return;
  last = now;
  if (lock_ != nullptr) lock_->unlock();
  const timespec moment{0, 1};
  ::nanosleep(&moment, nullptr);
  if (lock_ != nullptr) lock_->lock();
}

void Engine::ring() noexcept {
  disarm();
  rung_ = true;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_up_.get(), &one, sizeof one));
}

bool Engine::Waiter::slow_turn() {
  if (!spins()) {
    if (engine_.pace_) engine_.pace_->turn();
    engine_.yield();
    if (++turns_ % kYieldsPerClock != 0) return true;
  }
  const auto now = Clock::now();
  if (!in_time(now)) return false;
  if (idle_since_ == Clock::time_point{}) idle_since_ = now;
  if (now - polled_ >= kIdlePoll) {
    polled_ = now;
    if (engine_.progress_all() > 0) return moved();
    if (spins()) {
      engine_.yield();
      crowded_ = Clock::now() - now > kYieldAlone;
      if (crowded_) engine_.look_for_free_core();
    }
  }
  const Duration patience = spins()         ? Duration(kSpinBeforeSleep)
                            : engine_.pace_ ? Duration(kPacedBeforeSleep)
                                            : Duration(kYieldBeforeSleep);
  if (now - idle_since_ >= patience) {
    const auto wake_by = std::min(deadline_.at(), now + kWatchPeriod);
    if (engine_.sleep(wake_by) == Slept::UntilEvents) restart();
  }
  return true;
}

bool Engine::Waiter::in_time(Clock::time_point now) {
  if (!deadline_.given()) deadline_ = Deadline(now + default_timeout_);
  engine_.look(now);
  return now < deadline_.at();
}

}  // namespace sinew
