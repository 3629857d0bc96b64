#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace sinew::parallel {

/// How many elements go to, or come from, each rank of a group.
using Counts = std::vector<std::uint64_t>;

inline std::size_t total(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

}  // namespace sinew::parallel
