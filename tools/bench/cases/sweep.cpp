#include "sweep.hpp"

#include <limits>

namespace sinew::tools {

namespace {

/// Above every size where there is no larger one.
std::uint64_t grown(std::uint64_t bytes, SizeGrowth growth) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  if (growth.step_bytes > 0) return bytes > kMost - growth.step_bytes ? kMost : bytes + growth.step_bytes;
  return growth.factor < 2 || bytes > kMost / growth.factor ? kMost : bytes * growth.factor;
}

}  // namespace

std::vector<std::uint64_t> sweep(std::uint64_t min, std::uint64_t max, SizeGrowth growth, std::uint64_t unit) {
  std::vector<std::uint64_t> sizes;
  std::uint64_t bytes = min;
  if (min == 0) {
    sizes.push_back(0);
    bytes = growth.step_bytes > 0 ? growth.step_bytes : unit;
  }
  while (bytes <= max) {
    const std::uint64_t whole = bytes - bytes % unit;
    if (sizes.empty() || sizes.back() != whole) sizes.push_back(whole);
    const std::uint64_t next = grown(bytes, growth);
    if (next == std::numeric_limits<std::uint64_t>::max()) break;
    bytes = next;
  }
  return sizes;
}

}  // namespace sinew::tools
