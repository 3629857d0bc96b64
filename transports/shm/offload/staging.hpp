#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/transports/shm/memory/layout.hpp>

namespace sinew::shm {

/// Which calls have what in the staging of one rank. A ring: short calls lie side by side, so that who only gives can
/// be several calls ahead of those who take, and these find the next call where their prefetcher is looking already.
class Staging {
 public:
  struct Place {
    std::size_t unit = 0;
    std::uint64_t used_by = 0;  ///< it is free when everybody has finished reading this call
  };

  explicit Staging(std::size_t bytes) : used_by_(bytes / kUnitBytes) {}

  /// The next one, for so many bytes, kSlotMostBytes at most.
  Place find(std::uint64_t bytes) const noexcept {
    const std::size_t units = units_of(bytes);
    const std::size_t unit = next_ + units <= used_by_.size() ? next_ : 0;
    return {unit, *std::max_element(used_by_.data() + unit, used_by_.data() + unit + units)};
  }
  /// Returns where it lies, behind kSlotsAt.
  std::size_t take(Place place, std::uint64_t bytes, std::uint64_t sequence) noexcept {
    next_ = place.unit + units_of(bytes);
    std::fill(used_by_.data() + place.unit, used_by_.data() + next_, sequence);
    return place.unit * kUnitBytes;
  }

 private:
  static std::size_t units_of(std::uint64_t bytes) noexcept {
    return std::max<std::size_t>(1, (bytes + kUnitBytes - 1) / kUnitBytes);
  }

  std::size_t next_ = 0;
  std::vector<std::uint64_t> used_by_;  // the last call of each unit
};

}  // namespace sinew::shm
