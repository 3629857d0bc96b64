#include "sweep.hpp"

#include <limits>

namespace sinew::tools {

std::vector<std::uint64_t> sweep(std::uint64_t min, std::uint64_t max, std::uint64_t factor, std::uint64_t unit) {
  std::vector<std::uint64_t> sizes;
  std::uint64_t bytes = min;
  if (min == 0) {
    sizes.push_back(0);
    bytes = unit;
  }
  while (bytes <= max) {
    const std::uint64_t whole = bytes - bytes % unit;
    if (sizes.empty() || sizes.back() != whole) sizes.push_back(whole);
    if (factor < 2 || bytes > std::numeric_limits<std::uint64_t>::max() / factor) break;
    bytes *= factor;
  }
  return sizes;
}

}  // namespace sinew::tools
