#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// The encoding of f32 elements in messages. Sums are made in f32 of what messages decode to.
/// Bf16: the upper half of each element, rounded to nearest even.
/// F16:  each element as IEEE 754 binary16, rounded to nearest even.
/// Int8: blocks of kScaledBlock elements, counted from the chunk's begin. The last one may be shorter. A block is one
///       f32 scale and a whole number from -127 to 127 for each element, which stands for itself times the scale. 127
///       times the scale is the largest magnitude of the block.
/// F8E4M3: blocks as those of Int8, with a float of 8 bits for each element (4 of exponent, 3 of mantissa). 448 times
///       the scale is the largest magnitude of the block. Small elements of a block keep more digits than in Int8.
/// Layout: as above and little-endian, padded with zeros to whole words of 4 bytes.
/// A finite element x decodes to a number that differs from it by at most
///   Bf16: |x| / 256, or 2^-134 where that is more; beyond the largest number of bf16 it is infinite;
///   F16:  |x| / 2048, or 2^-25 where that is more; from 65520 on it is infinite;
///   Int8: largest / 253, or 2^-127 where that is more. `largest` is the block's largest magnitude. These are half a
///         scale and the rounding of f32. The number is never more than `largest`. -0 becomes 0;
///   F8E4M3: |x| / 16, or the greater of largest / 458000 and 2^-135. The number is never more than `largest`.
/// Infinity and NaN never become finite. Bf16 and F16 keep them. In Int8 and F8E4M3 every element of a block that has
/// one becomes NaN.
enum class Codec : std::uint8_t { None, Bf16, Int8, F16, F8E4M3 };

inline constexpr std::size_t kCodecCount = 5;
/// The elements of a block with one scale, in Int8 and F8E4M3.
inline constexpr std::uint64_t kScaledBlock = 256;
constexpr bool has_scales(Codec codec) noexcept { return codec == Codec::Int8 || codec == Codec::F8E4M3; }

/// "none", "bf16", "int8", "f16", "f8e4m3".
SINEW_API std::string_view name_of(Codec codec) noexcept;
SINEW_API std::optional<Codec> codec_from_name(std::string_view name) noexcept;

/// Bytes of a coded chunk of `count` elements.
constexpr std::uint64_t wire_bytes(Codec codec, std::uint64_t count) noexcept {
  switch (codec) {
    case Codec::None: return count * 4;
    case Codec::Bf16:
    case Codec::F16: return (count + 1) / 2 * 4;
    case Codec::Int8:
    case Codec::F8E4M3: return (count + kScaledBlock - 1) / kScaledBlock * 4 + (count + 3) / 4 * 4;
  }
  return 0;
}

/// The most by which a result may differ from the exact sum of its contributions, each coded at most `codings` times on
/// its way, by itself or in sums. `magnitude`: the sum of the magnitudes of all contributions. For Bf16 and F16 that is
/// the magnitude at the element, and for Int8 and F8E4M3 the largest of the coded blocks that the element is in. Holds
/// for finite numbers far above the denormal ones.
/// A rank's contribution to a call on P ranks is coded at most P times in all_reduce, P - 1 times in reduce_scatter,
/// once in all_gather.
SINEW_API double coding_error(Codec codec, int codings, double magnitude) noexcept;

/// The kernels of a codec, for the best instruction set of this CPU, which all give the same bits. Any alignment.
struct CodecKernels {
  void (*encode)(void* coded, const void* elements, std::size_t count) noexcept = nullptr;
  void (*decode)(void* elements, const void* coded, std::size_t count) noexcept = nullptr;
  /// sum[i] = a[i] + decoded[i], rounded once each; sum may be a.
  void (*decode_add)(void* sum, const void* a, const void* coded, std::size_t count) noexcept = nullptr;
};

/// None: no kernels.
SINEW_API CodecKernels codec_kernels(Codec codec);

}  // namespace sinew
