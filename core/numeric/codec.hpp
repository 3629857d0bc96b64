#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// How f32 elements travel. Coded chunks are only carried: sums are made in f32 of what they decode to.
/// Bf16: the upper half of each element, rounded to nearest even.
/// F16:  each element as IEEE 754 binary16, rounded to nearest even.
/// Int8: blocks of kInt8Block elements, counted from the chunk's begin, the last one shorter: one f32 scale, then one
///       whole number from -127 to 127 for each element, which stands for itself times the scale; 127 scales are the
///       largest magnitude of the block.
/// Layout: as above and little-endian, padded with zeros to whole words of 4 bytes.
/// What a finite element x decodes to differs from it by at most
///   Bf16: |x| / 256, or 2^-134 where that is more; beyond the largest number of bf16 it is infinite;
///   F16:  |x| / 2048, or 2^-25 where that is more; from 65520 on it is infinite;
///   Int8: largest / 253, or 2^-127 where that is more, `largest` being the block's largest magnitude: half a scale and
///         what f32 arithmetic adds. It is never more than `largest`. -0 becomes 0.
/// Infinity and NaN never become finite: Bf16 and F16 keep them; in Int8 every element of a block that has one becomes
/// NaN.
enum class Codec : std::uint8_t { None, Bf16, Int8, F16 };

inline constexpr std::size_t kCodecCount = 4;
inline constexpr std::uint64_t kInt8Block = 256;

/// "none", "bf16", "int8", "f16".
SINEW_API std::string_view name_of(Codec codec) noexcept;
SINEW_API std::optional<Codec> codec_from_name(std::string_view name) noexcept;

/// Bytes of a coded chunk of `count` elements.
constexpr std::uint64_t wire_bytes(Codec codec, std::uint64_t count) noexcept {
  switch (codec) {
    case Codec::None: return count * 4;
    case Codec::Bf16:
    case Codec::F16: return (count + 1) / 2 * 4;
    case Codec::Int8: return (count + kInt8Block - 1) / kInt8Block * 4 + (count + 3) / 4 * 4;
  }
  return 0;
}

/// Most by which a result may differ from the exact sum of its contributions, each coded at most `codings` times on its
/// way, by itself or in sums. `magnitude`: the sum over the contributions of the magnitude of each, Bf16 and F16 at the
/// element, Int8 the largest of the coded blocks that the element is in. Of finite numbers far above the denormal ones.
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
