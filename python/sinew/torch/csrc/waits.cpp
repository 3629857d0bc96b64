#include "waits.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include "signals.hpp"
#include "slow_wait.hpp"

namespace sinew::torch_backend {

namespace {

/// All Works are ordered again after each pause: it does no harm if a stream waits for the same Work twice.
Status order_all(WorkList& works, StreamRef stream, Deadline until) {
  for (Work& w : works) {
    if (Status status = w.order(stream, until); !status.ok()) return status;
  }
  return {};
}

}  // namespace

Status wait_for(WorkList& works, Clock::time_point now, Deadline until, bool began_here, StreamRef stream) {
  const Clock::time_point last = until.given() ? until.at() : Clock::time_point::max();
  std::optional<SlowWait> slow;
  int pauses = 0;
  while (true) {
    const Deadline pause(std::min(now + kSignalPause, last));
    Status status = stream.device >= 0  ? order_all(works, stream, pause)
                    : works.size() == 1 ? works.front().wait(pause)
                                        : wait_all(std::span(works.data(), works.size()), pause);
    if (status.code() != Code::Pending) return status;
    now = Clock::now();
    if (now >= last) return status;
    if (++pauses == python::kPausesBeforeSlow) slow.emplace(works, began_here);
    run_signal_handlers();
  }
}

}  // namespace sinew::torch_backend
