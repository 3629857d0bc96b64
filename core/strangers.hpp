#pragma once

#include <cstddef>

#include <sinew/core/deadline.hpp>

namespace sinew {

/// What a listener grants connections that have not proved the job's secret: so many places at a time, so long in one.
/// Where all are taken, whoever has had `kAtLeast` gives way to the next, the oldest first; before that, newcomers wait
/// in the kernel. So a place comes free 256 times a second, whatever strangers do, and a peer's proof, of one round
/// trip, is not cut short by a flood. Nothing that a stranger says makes memory: see Authentication.
struct Strangers {
  static constexpr std::size_t kPlaces = 64;
  static constexpr Duration kAtLeast = std::chrono::milliseconds(250);
  static constexpr Duration kAtMost = std::chrono::seconds(5);
};

}  // namespace sinew
