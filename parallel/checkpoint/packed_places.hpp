#pragma once

#include <cstddef>

namespace sinew::parallel {

/// Places of parts one after the other in memory. Each begins at a multiple of a cache line, so that its elements are
/// aligned, whatever their type.
class PackedPlaces {
 public:
  /// The place of the next part.
  std::size_t add(std::size_t bytes) noexcept {
    const std::size_t place = bytes_;
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return place;
  }
  /// The length of the memory.
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  static constexpr std::size_t kAlignment = 64;

  std::size_t bytes_ = 0;
};

}  // namespace sinew::parallel
