#pragma once

#include <cstdint>

namespace sinew::parallel {

/// A count as a factor of the planner's estimates, which are sums and products of doubles.
inline double number(std::int64_t count) noexcept { return static_cast<double>(count); }

/// Bytes of an activation or a weight as the model computes with it: 16 bits.
inline constexpr double kElementBytes = 2;

}  // namespace sinew::parallel
