#pragma once

#include <cstdint>
#include <vector>

namespace sinew::tools {

/// The sizes to measure, in bytes, ascending, none twice: min, min * factor, ... up to max, each rounded down to whole
/// units. A min of 0 measures zero bytes and goes on from one unit.
std::vector<std::uint64_t> sweep(std::uint64_t min, std::uint64_t max, std::uint64_t factor, std::uint64_t unit);

}  // namespace sinew::tools
