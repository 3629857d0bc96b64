#pragma once

#include <cstdint>

namespace sinew {

/// A run of elements of a buffer.
struct Extent {
  std::uint64_t first = 0;
  std::uint64_t count = 0;

  /// Part s of S equal ones: [count*s/S, count*(s+1)/S), the same split on every rank.
  Extent segment(std::uint32_t s, std::uint32_t of) const noexcept {
    const std::uint64_t from = count * s / of;
    return {first + from, count * (s + 1) / of - from};
  }
};

}  // namespace sinew
