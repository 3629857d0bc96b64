#include <bit>

#include <sinew/core/float_formats.hpp>

namespace sinew {
namespace {

/// Layout of a float narrower than f32. Without infinities only all ones is NaN, and overflow becomes NaN.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool infinite;

  constexpr int dropped() const { return 23 - mantissa_bits; }
  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr std::uint32_t magnitude_mask() const { return (1u << (exponent_bits + mantissa_bits)) - 1; }
  constexpr std::uint32_t infinity() const { return magnitude_mask() & ~((1u << mantissa_bits) - 1); }
  constexpr std::uint32_t nan() const { return infinite ? infinity() | 1u << (mantissa_bits - 1) : magnitude_mask(); }
  constexpr std::uint32_t largest() const { return infinite ? infinity() : magnitude_mask(); }
};

constexpr Format kHalf{5, 10, true};
constexpr Format kFloat8E4M3{4, 3, false};
constexpr Format kFloat8E5M2{5, 2, true};

template <Format F>
float decode(std::uint32_t bits) noexcept {
  const std::uint32_t magnitude = bits & F.magnitude_mask();
  const std::uint32_t sign = (bits ^ magnitude) << (31 - F.exponent_bits - F.mantissa_bits);
  std::uint32_t value = (magnitude << F.dropped()) + (static_cast<std::uint32_t>(127 - F.bias()) << 23);
  if (magnitude >> F.mantissa_bits == 0) {
    constexpr auto kUnit = std::bit_cast<float>(static_cast<std::uint32_t>(128 - F.bias() - F.mantissa_bits) << 23);
    value = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * kUnit);
  } else if (F.infinite ? magnitude >= F.infinity() : magnitude == F.nan()) {
    value |= 0x7f800000u;
  }
  return std::bit_cast<float>(value | sign);
}

/// To the nearest, ties to even.
template <Format F>
std::uint32_t encode(float value) noexcept {
  if (value != value) return F.nan();
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t sign = (bits ^ magnitude) >> (31 - F.exponent_bits - F.mantissa_bits);
  constexpr std::uint32_t kSmallestNormal = static_cast<std::uint32_t>(128 - F.bias()) << 23;
  if (magnitude < kSmallestNormal) {
    // The last place of this number is the smallest subnormal: the addition rounds there.
    constexpr std::uint32_t kRounder = static_cast<std::uint32_t>(128 - F.bias() + F.dropped()) << 23;
    const float rounded = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kRounder);
    return sign | (std::bit_cast<std::uint32_t>(rounded) - kRounder);
  }
  const std::uint32_t odd = (magnitude >> F.dropped()) & 1;
  const std::uint32_t half = (1u << (F.dropped() - 1)) - 1;
  const std::uint32_t exponent_shift = static_cast<std::uint32_t>(127 - F.bias()) << F.mantissa_bits;
  const std::uint32_t rounded = ((magnitude + half + odd) >> F.dropped()) - exponent_shift;
  return sign | (rounded < F.largest() ? rounded : F.largest());
}

}  // namespace

float to_float(Half value) noexcept { return decode<kHalf>(value.bits); }
float to_float(BFloat16 value) noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }
float to_float(Float8E4M3 value) noexcept { return decode<kFloat8E4M3>(value.bits); }
float to_float(Float8E5M2 value) noexcept { return decode<kFloat8E5M2>(value.bits); }

Half to_half(float value) noexcept { return {static_cast<std::uint16_t>(encode<kHalf>(value))}; }

BFloat16 to_bfloat16(float value) noexcept {
  if (value != value) return {0x7fc0};
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16)};
}

Float8E4M3 to_float8_e4m3(float value) noexcept { return {static_cast<std::uint8_t>(encode<kFloat8E4M3>(value))}; }
Float8E5M2 to_float8_e5m2(float value) noexcept { return {static_cast<std::uint8_t>(encode<kFloat8E5M2>(value))}; }

}  // namespace sinew
