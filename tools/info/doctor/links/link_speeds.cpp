#include "link_speeds.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <sinew/tools/common/time_text.hpp>

#include "link_table.hpp"

namespace sinew::doctor {
namespace {

using tools::time_text;

constexpr double kSlowRate = 0.5;
constexpr double kSlowAnswer = 3;
/// What a busy machine adds to a round trip is not the link's.
constexpr double kAnswerNoise_s = 500e-6;

/// "118 MB/s".
std::string rate_text(double bytes_per_s) {
  constexpr const char* kUnits[] = {"B/s", "kB/s", "MB/s", "GB/s"};
  constexpr double kFourDigits = 999.5;
  std::size_t unit = 0;
  for (; bytes_per_s >= kFourDigits && unit + 1 < std::size(kUnits); ++unit) bytes_per_s /= 1000;
  return fmt::format("{:.3g} {}", bytes_per_s, kUnits[unit]);
}

/// How sure its figures are.
std::string tries_text(const LinkResult& r) {
  return r.tries == 1 ? "measured once" : fmt::format("at best of {} tries", r.tries);
}

/// The middle one, or between the two in the middle.
double median_of(std::span<const LinkResult* const> ways, double LinkResult::*figure) {
  std::vector<double> values;
  for (const LinkResult* r : ways) values.push_back(r->*figure);
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

std::vector<SlowLink> slow_links(std::span<const LinkResult> results) {
  std::vector<SlowLink> slow;
  for (auto& ways : by_network(results)) {
    std::erase_if(ways, [](const LinkResult* r) { return r->state != LinkState::Carries; });
    if (ways.empty()) continue;
    const double rate = median_of(ways, &LinkResult::bytes_per_s);
    const double answer = median_of(ways, &LinkResult::round_trip_s);
    for (const LinkResult* r : ways) {
      if (r->bytes_per_s < kSlowRate * rate) {
        slow.push_back({r, fmt::format("{} {}, the median of its network's {} ways is {}", rate_text(r->bytes_per_s),
                                       tries_text(*r), ways.size(), rate_text(rate))});
      } else if (r->round_trip_s > kSlowAnswer * answer && r->round_trip_s > answer + kAnswerNoise_s) {
        slow.push_back({r, fmt::format("a round trip takes {} {}, the median of its network's {} ways is {}",
                                       time_text(r->round_trip_s), tries_text(*r), ways.size(), time_text(answer))});
      }
    }
  }
  return slow;
}

std::string speeds_text(std::span<const LinkResult> results) {
  if (results.empty()) return "none to look at";
  const auto [slowest, fastest] = std::ranges::minmax(results, {}, &LinkResult::bytes_per_s);
  const auto [soonest, latest] = std::ranges::minmax(results, {}, &LinkResult::round_trip_s);
  return fmt::format("{} ways carry: {} to {}, round trips of {} to {}", results.size(), rate_text(slowest.bytes_per_s),
                     rate_text(fastest.bytes_per_s), time_text(soonest.round_trip_s), time_text(latest.round_trip_s));
}

}  // namespace sinew::doctor
