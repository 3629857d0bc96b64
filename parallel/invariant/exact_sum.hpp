#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// A sum of doubles, or of their squares, without rounding. Its value does not depend on the order of the additions,
/// nor on which rank adds what. It is a whole number of 2^-2148, in limbs of 32 bits. Limbs of several sums may be
/// added as integers, for example by an all_reduce, and give the limbs of the total.
/// Shape:  any values, also subnormal and infinite ones and NaN; at most 2^62 of them.
/// Cost:   four additions for a value, about ten for a square; 1 KiB.
/// Source: Kulisch, Computer Arithmetic and Validity (2013); Neal, Fast exact summation using small and large
///         superaccumulators, arXiv 1505.05571: this is its small one, twice as wide.
class SINEW_API ExactSum {
 public:
  /// Limbs, then how many NaN, +infinity and -infinity there were.
  static constexpr std::size_t kLimbs = 136, kWords = kLimbs + 3;

  void add(double x) noexcept;
  void add_square(double x) noexcept;
  ExactSum& operator+=(const ExactSum& other) noexcept;

  /// The sum, rounded once to the nearest double, ties to even. Infinite if it is larger than any double. NaN if a NaN
  /// was added, or infinities of both signs. +0 if nothing was added.
  double value() const noexcept;
  /// Returns whether neither a NaN nor an infinity was added. value() may be infinite all the same, for a large sum.
  bool is_finite() const noexcept;

  /// The limbs and counts. Those of up to 2^30 sums may be added.
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
