#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include <sinew/core/numeric/codec.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sinew/core/numeric/codec_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <sinew/core/numeric/largest_magnitude-inl.hpp>
#include <sinew/core/numeric/reduce_sweep-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace sinew {
namespace HWY_NAMESPACE {

// Inputs of sweep(): what Codec::store takes for the elements from i on.

struct Elements {
  const float* from;

  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, std::size_t i) const {
    return hn::LoadU(d, from + i);
  }
  HWY_INLINE float load_one(std::size_t i) const { return load_bits<float>(from + i); }
};

/// Rounded to the upper halves, as they are stored.
struct Bf16Store : NarrowScalar<BFloat16> {
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, Raw* p) {
    const hn::Rebind<Raw, D> narrow;
    hn::StoreU(hn::TruncateTo(narrow, hn::ShiftRight<16>(BFloat16Codec::rounded(d, v))), narrow, p);
  }
};

template <class Store>
struct HalfEncoded : Elements {
  using Codec = Store;

  template <class From, class D>
  HWY_INLINE hn::Vec<D> lanes(D d, std::size_t i) const {
    return load(d, i);
  }
  HWY_INLINE float one(std::size_t i) const { return load_one(i); }
};

struct F16Values {
  const std::uint16_t* from;

  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, std::size_t i) const {
    return HalfCodec::load(d, from + i);
  }
  HWY_INLINE float load_one(std::size_t i) const { return HalfCodec::load_one(from + i); }
};

struct Bf16Values {
  const std::uint16_t* from;

  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, std::size_t i) const {
    const hn::RebindToUnsigned<D> wide;
    const auto halves = hn::LoadU(hn::Rebind<std::uint16_t, D>(), from + i);
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, halves)));
  }
  HWY_INLINE float load_one(std::size_t i) const { return decode_one(BFloat16{load_bits<std::uint16_t>(from + i)}); }
};

/// Whole numbers, rounded to nearest even.
struct Int8Store {
  using Raw = std::int8_t;
  using Acc = float;
  using Lane = float;

  template <class D>
  static HWY_INLINE void store(D, hn::Vec<D> v, Raw* p) {
    const hn::Rebind<Raw, D> narrow;
    hn::StoreU(hn::DemoteTo(narrow, hn::NearestInt(v)), narrow, p);
  }
  static HWY_INLINE void store_one(Acc value, Raw* p) { *p = static_cast<Raw>(std::lrint(value)); }
};

/// Elements divided by the scale.
template <class Store>
struct ScaledEncoded : Elements {
  using Codec = Store;
  float inverse;  ///< of the scale

  template <class From, class D>
  HWY_INLINE hn::Vec<D> lanes(D d, std::size_t i) const {
    return hn::Mul(load(d, i), hn::Set(d, inverse));
  }
  HWY_INLINE float one(std::size_t i) const { return load_one(i) * inverse; }
};

struct Int8Values {
  const std::int8_t* from;
  float scale;

  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, std::size_t i) const {
    const hn::RebindToSigned<D> wide;
    const auto numbers = hn::PromoteTo(wide, hn::LoadU(hn::Rebind<std::int8_t, D>(), from + i));
    return hn::Mul(hn::ConvertTo(d, numbers), hn::Set(d, scale));
  }
  HWY_INLINE float load_one(std::size_t i) const { return static_cast<float>(from[i]) * scale; }
};

struct F8E4M3Values {
  const std::uint8_t* from;
  float scale;

  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, std::size_t i) const {
    return hn::Mul(Float8E4M3Codec::load(d, from + i), hn::Set(d, scale));
  }
  HWY_INLINE float load_one(std::size_t i) const { return Float8E4M3Codec::load_one(from + i) * scale; }
};

/// A codec whose blocks have a scale. kLargest is its largest number.
struct Int8Blocks {
  using Store = Int8Store;
  using Values = Int8Values;
  static constexpr double kLargest = 127;
};
struct F8E4M3Blocks {
  using Store = Float8E4M3Codec;
  using Values = F8E4M3Values;
  static constexpr double kLargest = 448;
};

template <class Values>
struct Decoded : Values {
  using Codec = Plain<float>;

  template <class From, class D>
  HWY_INLINE hn::Vec<D> lanes(D d, std::size_t i) const {
    return Values::load(d, i);
  }
  HWY_INLINE float one(std::size_t i) const { return Values::load_one(i); }
};

template <class Values>
struct Added : Values {
  using Codec = Plain<float>;
  const float* a;

  template <class From, class D>
  HWY_INLINE hn::Vec<D> lanes(D d, std::size_t i) const {
    return hn::Add(hn::LoadU(d, a + i), Values::load(d, i));
  }
  HWY_INLINE float one(std::size_t i) const { return load_bits<float>(a + i) + Values::load_one(i); }
};

constexpr std::int32_t kInfinityBits = 0x7f800000;
/// A little less than 1 / kLargest. So kLargest times the scale is never more than the largest magnitude, and never
/// infinite.
template <class Blocks>
constexpr float kScaleOfLargest = static_cast<float>((1.0 - 0x1p-22) / Blocks::kLargest);
/// Scales are never denormal: those have too few digits.
constexpr float kLeastScale = std::numeric_limits<float>::min();

template <class Blocks>
void encode_block(std::byte* to, const float* from, std::size_t count) {
  auto* numbers = reinterpret_cast<typename Blocks::Store::Raw*>(to + sizeof(float));
  const std::int32_t largest = largest_magnitude(from, count);
  float scale = std::numeric_limits<float>::quiet_NaN();
  if (largest < kInfinityBits) {
    scale = std::max(std::bit_cast<float>(largest) * kScaleOfLargest<Blocks>, kLeastScale);
    sweep(numbers, ScaledEncoded<typename Blocks::Store>{{from}, 1.0f / scale}, count);
  } else {
    std::memset(numbers, 0, count);
  }
  std::memcpy(to, &scale, sizeof(scale));
}

/// Calls visit(first element, elements, the block's bytes) for all blocks of a coded chunk.
template <class Byte, class Visit>
HWY_INLINE void for_each_block(Byte* coded, std::size_t count, Visit visit) {
  for (std::size_t first = 0; first < count; first += kScaledBlock, coded += sizeof(float) + kScaledBlock) {
    visit(first, std::min<std::size_t>(kScaledBlock, count - first), coded);
  }
}

template <class Blocks>
HWY_INLINE typename Blocks::Values values_of(const std::byte* block) {
  return {reinterpret_cast<const typename Blocks::Store::Raw*>(block + sizeof(float)), load_bits<float>(block)};
}

void clear_padding(Codec codec, void* coded, std::size_t used, std::size_t count) {
  std::memset(static_cast<std::byte*>(coded) + used, 0, wire_bytes(codec, count) - used);
}

template <class Store>
void encode_halves(void* coded, const void* elements, std::size_t count) noexcept {
  sweep(static_cast<std::uint16_t*>(coded), HalfEncoded<Store>{{static_cast<const float*>(elements)}}, count);
  clear_padding(Codec::Bf16, coded, 2 * count, count);  // as long as F16's
}

template <class Values>
void decode_halves(void* elements, const void* coded, std::size_t count) noexcept {
  sweep(static_cast<float*>(elements), Decoded<Values>{{static_cast<const std::uint16_t*>(coded)}}, count);
}

template <class Values>
void decode_add_halves(void* sum, const void* a, const void* coded, std::size_t count) noexcept {
  const Values values{static_cast<const std::uint16_t*>(coded)};
  sweep(static_cast<float*>(sum), Added<Values>{values, static_cast<const float*>(a)}, count);
}

template <class Blocks>
void encode_blocks(void* coded, const void* elements, std::size_t count) noexcept {
  const auto* from = static_cast<const float*>(elements);
  for_each_block(static_cast<std::byte*>(coded), count, [&](std::size_t first, std::size_t some, std::byte* block) {
    encode_block<Blocks>(block, from + first, some);
  });
  const std::size_t blocks = (count + kScaledBlock - 1) / kScaledBlock;
  clear_padding(Codec::Int8, coded, blocks * sizeof(float) + count, count);  // as long as F8E4M3's
}

template <class Blocks>
void decode_blocks(void* elements, const void* coded, std::size_t count) noexcept {
  auto* to = static_cast<float*>(elements);
  for_each_block(static_cast<const std::byte*>(coded), count,
                 [&](std::size_t first, std::size_t some, const std::byte* block) {
                   sweep(to + first, Decoded<typename Blocks::Values>{values_of<Blocks>(block)}, some);
                 });
}

template <class Blocks>
void decode_add_blocks(void* sum, const void* a, const void* coded, std::size_t count) noexcept {
  auto* to = static_cast<float*>(sum);
  const auto* other = static_cast<const float*>(a);
  for_each_block(static_cast<const std::byte*>(coded), count,
                 [&](std::size_t first, std::size_t some, const std::byte* block) {
                   sweep(to + first, Added<typename Blocks::Values>{values_of<Blocks>(block), other + first}, some);
                 });
}

template <class Blocks>
CodecKernels kernels_of_blocks() {
  return {&encode_blocks<Blocks>, &decode_blocks<Blocks>, &decode_add_blocks<Blocks>};
}

CodecKernels codec_kernels_here(Codec codec) {
  switch (codec) {
    case Codec::None: break;
    case Codec::Bf16: return {&encode_halves<Bf16Store>, &decode_halves<Bf16Values>, &decode_add_halves<Bf16Values>};
    case Codec::F16: return {&encode_halves<HalfCodec>, &decode_halves<F16Values>, &decode_add_halves<F16Values>};
    case Codec::Int8: return kernels_of_blocks<Int8Blocks>();
    case Codec::F8E4M3: return kernels_of_blocks<F8E4M3Blocks>();
  }
  return {};
}

}  // namespace HWY_NAMESPACE
}  // namespace sinew
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinew {

HWY_EXPORT(codec_kernels_here);

CodecKernels codec_kernels(Codec codec) { return HWY_DYNAMIC_DISPATCH(codec_kernels_here)(codec); }

}  // namespace sinew
#endif
