#pragma once

#include <cstdint>
#include <vector>

namespace sinew::tools {

/// The step from one size to the next.
struct SizeGrowth {
  std::uint64_t factor = 2;      ///< times as many bytes, ...
  std::uint64_t step_bytes = 0;  ///< or, above 0, so many bytes more
};

/// The sizes to measure, in bytes: ascending from `min` up to `max`, each rounded down to whole units, none twice. A
/// `min` of 0 measures zero bytes first, then one unit or one step.
std::vector<std::uint64_t> sweep(std::uint64_t min, std::uint64_t max, SizeGrowth growth, std::uint64_t unit);

}  // namespace sinew::tools
