#pragma once

#include <algorithm>
#include <chrono>

#include <sinew/core/deadline.hpp>

namespace sinew::run {

/// The waits before sinew-run starts ranks again (--backoff).
struct BackoffTimes {
  Duration first = std::chrono::seconds(1);
  Duration longest = std::chrono::minutes(1);
};

/// Says how long sinew-run waits before it starts ranks again. It waits BackoffTimes::first after the first failure,
/// and twice as long after each further one, BackoffTimes::longest at most. A start that lived for kHealthy or longer
/// begins the series anew.
class Backoff {
 public:
  static constexpr Duration kHealthy = std::chrono::minutes(5);

  explicit Backoff(BackoffTimes times) noexcept : times_(times), next_(times.first) {}

  /// The wait after a start that has lived so long.
  Duration after(Duration lived) noexcept {
    if (lived >= kHealthy) next_ = times_.first;
    const Duration wait = next_;
    next_ = std::min(2 * next_, times_.longest);
    return wait;
  }

 private:
  BackoffTimes times_;
  Duration next_;
};

}  // namespace sinew::run
