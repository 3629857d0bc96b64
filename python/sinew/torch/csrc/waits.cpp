#include "waits.hpp"

#include <algorithm>
#include <span>

#include "signals.hpp"

namespace sinew::torch_backend {

Status wait_for(WorkList& works, Clock::time_point now, Deadline until) {
  const Clock::time_point last = until.given() ? until.at() : Clock::time_point::max();
  while (true) {
    const Deadline pause(std::min(now + kSignalPause, last));
    Status status =
        works.size() == 1 ? works.front().wait(pause) : wait_all(std::span(works.data(), works.size()), pause);
    if (status.code() != Code::Pending) return status;
    now = Clock::now();
    if (now >= last) return status;
    run_signal_handlers();
  }
}

}  // namespace sinew::torch_backend
