#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <sinew/parallel/invariant/exact_sum.hpp>

namespace sinew::parallel {
namespace {

constexpr int kLimbBits = 32, kFraction = 52, kLeastExponent = -1074;
constexpr std::uint64_t kLimbMask = 0xffffffff;
constexpr std::size_t kNaN = ExactSum::kLimbs, kPlus = kNaN + 1, kMinus = kNaN + 2;

struct Parts {
  std::uint64_t mantissa;
  int exponent;
};

/// |x| = mantissa * 2^exponent, of a number.
Parts parts_of(double x) noexcept {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const auto field = static_cast<int>(bits >> kFraction & 0x7ff);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << kFraction) - 1);
  if (field == 0) return {fraction, kLeastExponent};
  return {fraction | std::uint64_t{1} << kFraction, kLeastExponent + field - 1};
}

}  // namespace

void ExactSum::note(double x, bool squared) noexcept {
  ++words_[std::isnan(x) ? kNaN : x > 0 || squared ? kPlus : kMinus];
}

void ExactSum::put(std::uint64_t value, int exponent, bool negative) noexcept {
  const auto at = static_cast<std::size_t>(exponent - kLowest);
  const std::size_t limb = at / kLimbBits, shift = at % kLimbBits;
  const std::uint64_t low = (value & kLimbMask) << shift, high = (value >> kLimbBits) << shift;
  const auto first = static_cast<std::int64_t>(low & kLimbMask);
  const auto second = static_cast<std::int64_t>((low >> kLimbBits) + (high & kLimbMask));
  const auto third = static_cast<std::int64_t>(high >> kLimbBits);
  if (negative) {
    words_[limb] -= first, words_[limb + 1] -= second, words_[limb + 2] -= third;
  } else {
    words_[limb] += first, words_[limb + 1] += second, words_[limb + 2] += third;
  }
}

void ExactSum::add(double x) noexcept {
  if (!std::isfinite(x)) return note(x, false);
  const Parts parts = parts_of(x);
  put(parts.mantissa, parts.exponent, std::signbit(x));
  if (++added_ == kMostAdded) carry();
}

void ExactSum::add_square(double x) noexcept {
  if (!std::isfinite(x)) return note(x, true);
  const Parts parts = parts_of(x);
  const std::uint64_t low = parts.mantissa & kLimbMask, high = parts.mantissa >> kLimbBits;
  put(low * low, 2 * parts.exponent, false);
  put(2 * low * high, 2 * parts.exponent + kLimbBits, false);
  put(high * high, 2 * parts.exponent + 2 * kLimbBits, false);
  if (++added_ == kMostAdded) carry();
}

void ExactSum::carry() noexcept {
  for (std::size_t i = 0; i + 1 < kLimbs; ++i) {
    words_[i + 1] += words_[i] >> kLimbBits;  // rounds down
    words_[i] &= static_cast<std::int64_t>(kLimbMask);
  }
  added_ = 0;
}

ExactSum& ExactSum::operator+=(const ExactSum& other) noexcept {
  ExactSum another = other;
  carry();
  another.carry();
  for (std::size_t i = 0; i < kWords; ++i) words_[i] += another.words_[i];
  carry();
  return *this;
}

std::span<std::int64_t, ExactSum::kWords> ExactSum::words() noexcept {
  carry();
  return words_;
}

bool ExactSum::is_finite() const noexcept { return words_[kNaN] == 0 && words_[kPlus] == 0 && words_[kMinus] == 0; }

double ExactSum::value() const noexcept {
  if (words_[kNaN] > 0 || (words_[kPlus] > 0 && words_[kMinus] > 0)) return std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (words_[kPlus] > 0) return kInfinite;
  if (words_[kMinus] > 0) return -kInfinite;
  ExactSum sum = *this;
  sum.carry();
  const bool negative = sum.words_[kLimbs - 1] < 0;
  if (negative) {
    for (std::size_t i = 0; i < kLimbs; ++i) sum.words_[i] = -sum.words_[i];
    sum.carry();
  }
  std::size_t top = kLimbs;
  while (top > 0 && sum.words_[top - 1] == 0) --top;
  if (top == 0) return 0;
  // 64 bits from the highest one on, and whether anything is below them.
  const auto limb = [&](std::size_t back) {
    return back < top ? static_cast<std::uint64_t>(sum.words_[top - 1 - back]) : std::uint64_t{0};
  };
  const int empty = std::countl_zero(limb(0)) - kLimbBits;  // of the first limb
  std::uint64_t bits = limb(0) << kLimbBits | limb(1);
  bits = empty == 0 ? bits : bits << empty | limb(2) >> (kLimbBits - empty);
  bool rest = (limb(2) << empty & kLimbMask) != 0;
  for (std::size_t i = 0; i + 3 < top; ++i) rest = rest || sum.words_[i] != 0;
  // The lowest of the 64 stands for 2^lowest; as many as a double of that size has are kept.
  const int lowest = kLowest + kLimbBits * (static_cast<int>(top) - 2) - empty;
  const int dropped = std::max(63 - kFraction, kLeastExponent - lowest);
  if (dropped > 64) return negative ? -0.0 : 0.0;
  std::uint64_t kept = dropped == 64 ? 0 : bits >> dropped;
  const std::uint64_t half = std::uint64_t{1} << (dropped - 1);
  const std::uint64_t below = bits & (half - 1);
  if ((bits & half) != 0 && (below != 0 || rest || (kept & 1) != 0)) ++kept;
  const double size = std::ldexp(static_cast<double>(kept), lowest + dropped);
  return negative ? -size : size;
}

}  // namespace sinew::parallel
