#pragma once

#include <algorithm>
#include <chrono>

#include <sinew/core/deadline.hpp>

namespace sinew::run {

/// Says how long sinew-run waits before it starts the ranks again: kFirst after the first failure, twice as long after
/// each further one, kLongest at most. A start that lived for kHealthy or longer begins the series anew.
class Backoff {
 public:
  static constexpr Duration kFirst = std::chrono::seconds(1);
  static constexpr Duration kLongest = std::chrono::minutes(1);
  static constexpr Duration kHealthy = std::chrono::minutes(5);

  /// The wait after a start that has lived so long.
  Duration after(Duration lived) noexcept {
    if (lived >= kHealthy) next_ = kFirst;
    const Duration wait = next_;
    next_ = std::min(2 * next_, kLongest);
    return wait;
  }

 private:
  Duration next_ = kFirst;
};

}  // namespace sinew::run
