#include "clocks.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "../../time_text.hpp"

namespace sinew::doctor {
namespace {

using tools::time_text;

constexpr int kRounds = 8;
constexpr double kApart_s = 0.1;
constexpr double kNano = 1e-9;
constexpr const char* kCure =
    "chrony or systemd-timesyncd on every host: logs and traces of the job are put in order by these clocks";

std::int64_t now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

std::vector<ClockReading> read_clocks(const Exchange& exchange) {
  std::vector<ClockReading> readings;
  for (int round = 0; round < kRounds; ++round) {
    ClockReading reading;
    reading.before_ns = now_ns();
    static_cast<void>(exchange.all_gather({}));
    reading.after_ns = now_ns();
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
  const double width = static_cast<double>(most - least) * kNano;
  return ClockOffset{static_cast<double>(least) * kNano + width / 2, width / 2};
}

std::vector<Finding> check_clocks(std::span<const std::vector<ClockReading>> readings,
                                  std::span<const std::string> hosts) {
  std::vector<Finding> found;
  double furthest = 0;
  for (std::size_t h = 1; h < readings.size(); ++h) {
    const auto offset = offset_of(readings[h], readings[0]);
    if (!offset) {
      found.push_back({Severity::Warns,
                       "clock",
                       fmt::format("it, or that of {}, was set while this looked", hosts[0]),
                       kCure,
                       {hosts[h]}});
    } else if (std::abs(offset->seconds) - offset->error_s > kApart_s) {
      found.push_back({Severity::Warns,
                       "clock",
                       fmt::format("{} {} that of {}, give or take {}", time_text(std::abs(offset->seconds)),
                                   offset->seconds > 0 ? "ahead of" : "behind", hosts[0], time_text(offset->error_s)),
                       kCure,
                       {hosts[h]}});
    } else {
      furthest = std::max(furthest, std::abs(offset->seconds) + offset->error_s);
    }
  }
  if (found.empty() && readings.size() > 1) {
    found.push_back({Severity::Fine, "clock", fmt::format("at most {} apart", time_text(furthest))});
  }
  return found;
}

}  // namespace sinew::doctor
