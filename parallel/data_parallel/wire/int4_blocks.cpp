#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include <sinew/parallel/data_parallel/wire/int4_blocks.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sinew/parallel/data_parallel/wire/int4_blocks.cpp"
// The first one includes this file again for each target, before anything else is seen.
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include <sinew/core/numeric/largest_magnitude-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace sinew::parallel::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kInt4Half = kInt4Block / 2;

struct Int4Scale {
  std::uint16_t bits;  // bf16
  float value() const noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

Int4Scale scale_for(std::int32_t largest) noexcept {
  constexpr std::int32_t kInfinityBits = 0x7f800000;
  constexpr std::uint16_t kNaN = 0x7fc0;
  if (largest >= kInfinityBits) return {kNaN};
  // A scale is never denormal, because its inverse would be infinite.
  const float scale = std::max(std::bit_cast<float>(largest) / 7, std::numeric_limits<float>::min());
  return {static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(scale) + 0xffff) >> 16)};
}

void encode_int4_here(const float* from, std::size_t count, std::byte* to) {
  const hn::CappedTag<float, kInt4Half> d;
  const hn::RebindToSigned<decltype(d)> whole;
  const hn::RebindToUnsigned<decltype(d)> words;
  const hn::Rebind<std::uint8_t, decltype(d)> bytes;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t first = 0; first < count; first += kInt4Block) {
    const float* block = from + first;
    const std::size_t some = std::min(kInt4Block, count - first), half = (some + 1) / 2;
    const std::int32_t largest = sinew::HWY_NAMESPACE::largest_magnitude(block, some);
    const Int4Scale scale = scale_for(largest);
    std::memcpy(to, &scale.bits, sizeof(scale.bits));
    to += sizeof(scale.bits);
    if (std::isnan(scale.value())) {
      std::memset(to, 0, half);
    } else if (some == kInt4Block) {
      const auto inverse = hn::Set(d, 1.0f / scale.value());
      const auto lower_half = hn::Set(whole, 15);
      for (std::size_t j = 0; j < kInt4Half; j += lanes) {
        const auto lower = hn::NearestInt(hn::Mul(hn::LoadU(d, block + j), inverse));
        const auto upper = hn::NearestInt(hn::Mul(hn::LoadU(d, block + kInt4Half + j), inverse));
        const auto both = hn::Or(hn::And(lower, lower_half), hn::ShiftLeft<4>(hn::And(upper, lower_half)));
        hn::StoreU(hn::TruncateTo(bytes, hn::BitCast(words, both)), bytes, reinterpret_cast<std::uint8_t*>(to + j));
      }
    } else {
      const float inverse = 1.0f / scale.value();
      for (std::size_t j = 0; j < half; ++j) {
        const auto lower = static_cast<unsigned>(std::lrint(block[j] * inverse)) & 15U;
        const unsigned upper =
            half + j < some ? static_cast<unsigned>(std::lrint(block[half + j] * inverse)) & 15U : 0U;
        to[j] = static_cast<std::byte>(lower | upper << 4);
      }
    }
    to += half;
  }
}

void add_int4_here(const std::byte* coded, std::size_t count, float* sums) {
  const hn::CappedTag<float, kInt4Half> d;
  const hn::RebindToSigned<decltype(d)> whole;
  const hn::Rebind<std::uint8_t, decltype(d)> bytes;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t first = 0; first < count; first += kInt4Block) {
    float* block = sums + first;
    const std::size_t some = std::min(kInt4Block, count - first), half = (some + 1) / 2;
    Int4Scale scale{};
    std::memcpy(&scale.bits, coded, sizeof(scale.bits));
    coded += sizeof(scale.bits);
    // A number of 4 bits times a scale of bf16 is exact in f32, so a fused product and sum gives the same bits.
    if (some == kInt4Block) {
      const auto factor = hn::Set(d, scale.value());
      for (std::size_t j = 0; j < kInt4Half; j += lanes) {
        const auto both = hn::PromoteTo(whole, hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(coded + j)));
        const auto lower = hn::ConvertTo(d, hn::ShiftRight<28>(hn::ShiftLeft<28>(both)));
        const auto upper = hn::ConvertTo(d, hn::ShiftRight<28>(hn::ShiftLeft<24>(both)));
        hn::StoreU(hn::Add(hn::LoadU(d, block + j), hn::Mul(lower, factor)), d, block + j);
        float* const second = block + kInt4Half + j;
        hn::StoreU(hn::Add(hn::LoadU(d, second), hn::Mul(upper, factor)), d, second);
      }
    } else {
      for (std::size_t j = 0; j < half; ++j) {
        const auto both = static_cast<std::uint32_t>(coded[j]);
        block[j] += static_cast<float>(static_cast<std::int32_t>(both << 28) >> 28) * scale.value();
        if (half + j < some)
          block[half + j] += static_cast<float>(static_cast<std::int32_t>(both << 24) >> 28) * scale.value();
      }
    }
    coded += half;
  }
}

}  // namespace sinew::parallel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinew::parallel {

HWY_EXPORT(encode_int4_here);
HWY_EXPORT(add_int4_here);

void encode_int4(const float* from, std::size_t count, std::byte* to) noexcept {
  HWY_DYNAMIC_DISPATCH(encode_int4_here)(from, count, to);
}
void add_int4(const std::byte* coded, std::size_t count, float* sums) noexcept {
  HWY_DYNAMIC_DISPATCH(add_int4_here)(coded, count, sums);
}

}  // namespace sinew::parallel
#endif
