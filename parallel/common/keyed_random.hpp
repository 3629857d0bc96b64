#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// Random numbers by name and number. A number is the same on every rank, in whatever order numbers are asked for. So
/// initial values that are keyed by a parameter's name and an element's number do not depend on the layout.
/// Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011): Philox-4x32-10, by Random123.
class SINEW_API KeyedRandom {
 public:
  KeyedRandom(std::uint64_t seed, std::string_view name);
  explicit KeyedRandom(const std::array<std::uint32_t, 2>& key) noexcept : key_(key) {}

  /// The key of the generator, made of seed and name. Kernels that make the same numbers take it.
  const std::array<std::uint32_t, 2>& key() const noexcept { return key_; }
  /// A whole number in [0, limit). limit is 1 or more.
  std::uint64_t below(std::uint64_t number, std::uint64_t limit) const;
  /// A uniformly distributed number in (0, 1).
  double uniform(std::uint64_t number) const;
  /// A normally distributed number with mean 0 and standard deviation 1.
  double normal(std::uint64_t number) const;

 private:
  std::array<std::uint32_t, 2> key_;
};

}  // namespace sinew::parallel
