#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// A sum of doubles, or of their squares, without rounding: its value does not depend on the order of what is added,
/// nor on who adds what. It is a whole number of 2^-2148, in limbs of 32 bits; limbs of several sums may be added as
/// integers, by an all_reduce too, to give the limbs of the sum of all.
/// Shape:  any values: subnormal, infinite, not numbers; 2^62 of them.
/// Cost:   four additions for a value, some ten for a square; 1 KiB.
/// Source: Kulisch, Computer Arithmetic and Validity (2013); Neal, Fast exact summation using small and large
///         superaccumulators, arXiv 1505.05571, whose small one this is, twice as wide.
class SINEW_API ExactSum {
 public:
  /// Limbs, then how many NaN, +infinity and -infinity there were.
  static constexpr std::size_t kLimbs = 136, kWords = kLimbs + 3;

  void add(double x) noexcept;
  void add_square(double x) noexcept;
  ExactSum& operator+=(const ExactSum& other) noexcept;

  /// Rounded once, to the nearest, ties to even; infinite where it is more than any double; NaN where a NaN was added,
  /// or infinities of both signs. +0 where nothing was.
  double value() const noexcept;

  /// Of which those of 2^30 sums may be added.
  std::span<std::int64_t, kWords> words() noexcept;

 private:
  static constexpr int kLowest = -2148;  // the exponent of the square of the smallest double
  static constexpr std::int64_t kMostAdded = std::int64_t{1} << 28;  // before carries, of which limbs have room

  /// value * 2^exponent.
  void put(std::uint64_t value, int exponent, bool negative) noexcept;
  void note(double x, bool squared) noexcept;
  /// Limbs of 32 bits, the last one with the sign.
  void carry() noexcept;

  std::array<std::int64_t, kWords> words_{};
  std::int64_t added_ = 0;  // since the last carry
};

}  // namespace sinew::parallel
