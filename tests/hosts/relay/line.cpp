#include "hosts/relay/line.hpp"

#include <algorithm>

namespace sinew::test {

std::optional<Line::Time> Line::arrival(Time now, std::size_t bytes) {
  constexpr double kDraws = 0x1p53;
  if (options_.loss > 0 && static_cast<double>(random_() >> 11) < options_.loss * kDraws) {
    ++lost_;
    return std::nullopt;
  }
  Time leaves = now;
  if (options_.bytes_per_s > 0) {
    const Time begins = std::max(free_at_, now);
    if (begins - now > options_.queue) {
      ++overflowed_;
      return std::nullopt;
    }
    const std::chrono::duration<double> takes(static_cast<double>(bytes) / options_.bytes_per_s);
    leaves = begins + std::chrono::duration_cast<Time::duration>(takes);
    free_at_ = leaves;
  }
  ++passed_;
  return leaves + options_.delay;
}

}  // namespace sinew::test
