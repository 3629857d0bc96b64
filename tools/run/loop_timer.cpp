#include "loop_timer.hpp"

#include <sys/timerfd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include <sinew/core/error.hpp>

namespace sinew::run {

void LoopTimer::start(Duration wait, std::function<void()> then) {
  stop();
  timer_ = FileDescriptor(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer_) throw_errno("making a timer");
  const auto ns = std::max<std::int64_t>(std::chrono::nanoseconds(wait).count(), 1);  // 0 would disarm it
  constexpr std::int64_t kSecond = 1'000'000'000;
  itimerspec when{};
  when.it_value = {ns / kSecond, ns % kSecond};
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
  loop_.add(timer_.get(), [this, then = std::move(then)] {
    stop();
    then();
  });
}

void LoopTimer::stop() {
  if (!timer_) return;
  loop_.remove(timer_.get());
  timer_ = FileDescriptor();
}

}  // namespace sinew::run
