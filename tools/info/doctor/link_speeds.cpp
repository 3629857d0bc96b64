#include "link_speeds.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "amounts.hpp"

namespace sinew::doctor {
namespace {

constexpr double kSlowRate = 0.5;
constexpr double kSlowAnswer = 3;
/// What a busy machine adds to a round trip is not the link's.
constexpr double kAnswerNoise_s = 500e-6;

bool same_network(const LinkResult& a, const LinkResult& b) {
  return a.link.from.prefix_bits == b.link.from.prefix_bits &&
         a.link.from.address.shares_network(b.link.from.address, a.link.from.prefix_bits);
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
  std::vector<std::vector<const LinkResult*>> networks;
  for (const LinkResult& r : results) {
    if (r.state != LinkState::Carries || r.link.routed) continue;
    const auto mine =
        std::ranges::find_if(networks, [&r](const auto& others) { return same_network(r, *others.front()); });
    (mine == networks.end() ? networks.emplace_back() : *mine).push_back(&r);
  }
  std::vector<SlowLink> slow;
  for (const auto& ways : networks) {
    const double rate = median_of(ways, &LinkResult::bytes_per_s);
    const double answer = median_of(ways, &LinkResult::round_trip_s);
    for (const LinkResult* r : ways) {
      if (r->bytes_per_s < kSlowRate * rate) {
        slow.push_back({r, fmt::format("{}, the median of its network's {} ways is {}", rate_text(r->bytes_per_s),
                                       ways.size(), rate_text(rate))});
      } else if (r->round_trip_s > kSlowAnswer * answer && r->round_trip_s > answer + kAnswerNoise_s) {
        slow.push_back({r, fmt::format("a round trip takes {}, the median of its network's {} ways is {}",
                                       time_text(r->round_trip_s), ways.size(), time_text(answer))});
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
