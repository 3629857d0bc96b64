#include "clocks.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <sinew/tools/common/time_text.hpp>

namespace sinew::doctor {
namespace {

using tools::time_text;

constexpr double kApart_s = 0.1;
constexpr const char* kCure =
    "chrony or systemd-timesyncd on every host: logs and traces of the job are put in order by these clocks";

}  // namespace

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
