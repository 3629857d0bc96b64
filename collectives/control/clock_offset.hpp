#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/exchange.hpp>
#include <sinew/core/base/export.hpp>

namespace sinew {

/// A host's clock, in nanoseconds, before and after one round of an exchange. The moment in which the last rank comes
/// to a round lies between the two on every host.
struct ClockReading {
  std::int64_t before_ns = 0;
  std::int64_t after_ns = 0;
  friend bool operator==(const ClockReading&, const ClockReading&) = default;
};

/// How far one clock is ahead of another, give or take the error.
struct ClockOffset {
  double seconds = 0;
  double error_s = 0;
};

/// Reads `now` around some rounds; all ranks must call it together.
SINEW_API std::vector<ClockReading> read_clocks(const Exchange& exchange, std::int64_t (*now)());

/// How far `other` is ahead of `base`. nullopt: no offset explains all rounds, a clock was set meanwhile.
SINEW_API std::optional<ClockOffset> offset_of(std::span<const ClockReading> other, std::span<const ClockReading> base);

/// Seconds in a nanosecond.
inline constexpr double kSecondsPerNs = 1e-9;

/// Nanoseconds of CLOCK_MONOTONIC: what calls are timed with. Cost: 20 ns, no system call.
SINEW_API std::int64_t monotonic_now() noexcept;
/// Nanoseconds of CLOCK_REALTIME, the time of day.
SINEW_API std::int64_t realtime_now() noexcept;
/// Equal exactly for processes whose monotonic_now() is the same clock: the machine's boot and the time namespace.
SINEW_API std::string clock_identity();

}  // namespace sinew
