#include "waits.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include "signals.hpp"
#include "slow_wait.hpp"

namespace sinew::torch_backend {

namespace {

constexpr int kPausesBeforeSlow = 2;

}  // namespace

Status wait_for(WorkList& works, Clock::time_point now, Deadline until, bool began_here) {
  const Clock::time_point last = until.given() ? until.at() : Clock::time_point::max();
  std::optional<SlowWait> slow;
  int pauses = 0;
  while (true) {
    const Deadline pause(std::min(now + kSignalPause, last));
    Status status =
        works.size() == 1 ? works.front().wait(pause) : wait_all(std::span(works.data(), works.size()), pause);
    if (status.code() != Code::Pending) return status;
    now = Clock::now();
    if (now >= last) return status;
    if (++pauses == kPausesBeforeSlow) slow.emplace(works, began_here);
    run_signal_handlers();
  }
}

}  // namespace sinew::torch_backend
