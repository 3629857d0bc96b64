#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <sinew/transports/shm/layout.hpp>

namespace sinew::shm {

/// Which calls have what in the staging of one rank: short ones side by side, so that who only gives can be several
/// calls ahead of those who take; and always the first place that is free, which the caches still hold.
class Staging {
 public:
  struct Place {
    std::size_t unit = 0;
    std::uint64_t used_by = 0;  ///< it is free when everybody has finished reading this call
  };

  /// For so many bytes, kSlotMostBytes at most: the first place that is free if all calls up to `known_done` are
  /// finished, else the one that will be first.
  Place find(std::uint64_t bytes, std::uint64_t known_done) const noexcept {
    const std::size_t units = units_of(bytes);
    Place best{0, UINT64_MAX};
    for (std::size_t first = 0; first + units <= used_by_.size(); ++first) {
      const std::uint64_t last = *std::max_element(used_by_.begin() + first, used_by_.begin() + first + units);
      if (last < best.used_by) best = {first, last};
      if (last <= known_done) break;
    }
    return best;
  }
  /// Returns where it lies, behind kSlotsAt.
  std::size_t take(Place place, std::uint64_t bytes, std::uint64_t sequence) noexcept {
    std::fill_n(used_by_.begin() + place.unit, units_of(bytes), sequence);
    return place.unit * kUnitBytes;
  }

 private:
  static std::size_t units_of(std::uint64_t bytes) noexcept {
    return std::max<std::size_t>(1, (bytes + kUnitBytes - 1) / kUnitBytes);
  }

  std::array<std::uint64_t, kSlotsBytes / kUnitBytes> used_by_{};  // the last call of each unit
};

}  // namespace sinew::shm
