#pragma once

#include <cstdint>
#include <span>

namespace sinew {

/// How a buffer is made of one part per rank, in the order of the ranks.
/// Units: elements. Shape: one entry per rank, 0 included; without displacements the parts lie one behind the other.
struct Parts {
  std::span<const std::uint64_t> counts{};
  std::span<const std::uint64_t> displacements{};  ///< where each part begins; empty: packed
};

}  // namespace sinew
