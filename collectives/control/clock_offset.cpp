#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>

#include <fmt/format.h>

#include <sinew/collectives/control/clock_offset.hpp>
#include <sinew/core/system/file_text.hpp>

namespace sinew {
namespace {

constexpr int kRounds = 8;
std::int64_t nanoseconds_of(clockid_t clock) noexcept {
  timespec t;
  ::clock_gettime(clock, &t);
  return t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec;
}

}  // namespace

std::int64_t monotonic_now() noexcept { return nanoseconds_of(CLOCK_MONOTONIC); }
std::int64_t realtime_now() noexcept { return nanoseconds_of(CLOCK_REALTIME); }  // the time of day is what is asked for

std::string clock_identity() {
  std::string boot = file_text("/proc/sys/kernel/random/boot_id").value_or("unknown");
  boot = boot.substr(0, boot.find('\n'));
  struct stat space {};
  const bool seen = ::stat("/proc/self/ns/time", &space) == 0;
  return fmt::format("boot {}/time {}", boot, seen ? std::to_string(space.st_ino) : "unknown");
}

std::vector<ClockReading> read_clocks(const Exchange& exchange, std::int64_t (*now)()) {
  std::vector<ClockReading> readings;
  for (int round = 0; round < kRounds; ++round) {
    ClockReading reading;
    reading.before_ns = now();
    static_cast<void>(exchange.all_gather({}));
    reading.after_ns = now();
    readings.push_back(reading);
  }
  return readings;
}

std::optional<ClockOffset> offset_of(std::span<const ClockReading> other, std::span<const ClockReading> base) {
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (std::size_t round = 0; round < std::min(other.size(), base.size()); ++round) {
    least = std::max(least, other[round].before_ns - base[round].after_ns);
    most = std::min(most, other[round].after_ns - base[round].before_ns);
  }
  if (least > most) return std::nullopt;
  const double width = static_cast<double>(most - least) * kSecondsPerNs;
  return ClockOffset{static_cast<double>(least) * kSecondsPerNs + width / 2, width / 2};
}

}  // namespace sinew
