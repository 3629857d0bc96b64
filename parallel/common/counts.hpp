#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace sinew::parallel {

/// Elements for each rank of a group.
using Counts = std::vector<std::uint64_t>;

inline std::size_t total(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

}  // namespace sinew::parallel
