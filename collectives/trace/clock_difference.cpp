#include <algorithm>
#include <cmath>
#include <cstring>

#include <sinew/collectives/trace/clock_difference.hpp>

namespace sinew {
namespace {

Bytes to_bytes(const std::vector<ClockReading>& readings) {
  const auto* first = reinterpret_cast<const std::byte*>(readings.data());
  return {first, first + readings.size() * sizeof(ClockReading)};
}

std::vector<ClockReading> readings_from(const Bytes& bytes) {
  std::vector<ClockReading> readings(bytes.size() / sizeof(ClockReading));
  if (!readings.empty()) std::memcpy(readings.data(), bytes.data(), readings.size() * sizeof(ClockReading));
  return readings;
}

}  // namespace

ClockDifference difference_of(std::span<const std::vector<ClockReading>> readings, int rank) {
  ClockDifference place;
  for (std::size_t r = 1; r < readings.size(); ++r) {
    const auto offset = offset_of(readings[r], readings[0]);
    const std::int64_t error = offset ? std::llround(offset->error_s / kSecondsPerNs) : -1;
    if (static_cast<int>(r) == rank) {
      place.error_ns = error;
      if (offset) place.ahead_ns = std::llround(offset->seconds / kSecondsPerNs);
    }
    if (error < 0) place.worst_error_ns = -1;
    if (place.worst_error_ns >= 0) place.worst_error_ns = std::max(place.worst_error_ns, error);
  }
  return place;
}

ClockDifference compare_clocks(const Exchange& exchange, std::span<const ControlPeer> peers) {
  std::vector<std::string> clocks;
  for (const ControlPeer& peer : peers) {
    if (!peer.clock.empty()) clocks.push_back(peer.clock);
  }
  std::ranges::sort(clocks);
  if (clocks.empty() || clocks.front() == clocks.back()) return {};
  std::vector<std::vector<ClockReading>> readings;
  for (const Bytes& b : exchange.all_gather(to_bytes(read_clocks(exchange, monotonic_now)))) {
    readings.push_back(readings_from(b));
  }
  return difference_of(readings, exchange.rank);
}

}  // namespace sinew
