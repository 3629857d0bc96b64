#pragma once

#include <cstddef>

#include <sinew/core/deadline.hpp>

namespace sinew {

/// What a listener grants connections that have not proved the job's secret: so many places at a time, so long in one,
/// from when they came or got a step further. Where all are taken, whoever has had `kAtLeast` is heard once more and
/// gives way to the next, the oldest first; before that, newcomers wait in the kernel. So a place comes free 256 times
/// a second, whatever strangers do, and a peer's proof, of one round trip and under TLS two, is not cut short by a
/// flood. A stranger makes no memory beyond its place, under TLS of 64 KiB at most: see Authentication and TlsSession.
struct Strangers {
  static constexpr std::size_t kPlaces = 64;
  static constexpr Duration kAtLeast = std::chrono::milliseconds(250);
  static constexpr Duration kAtMost = std::chrono::seconds(5);
};

}  // namespace sinew
