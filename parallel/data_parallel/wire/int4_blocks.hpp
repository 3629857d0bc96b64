#pragma once

// Blocks of small whole numbers, as which weights and gradients are sent. The room `wire` encodes and decodes elements.
// It may include the room `common`, and nothing that communicates or holds memory.

#include <cstddef>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// The elements of a block of Int4 numbers, which have one scale.
inline constexpr std::size_t kInt4Block = 64;

/// Bytes of `count` elements as Int4 blocks: 34 for each whole block. A shorter last block of n elements has
/// 2 + n / 2 bytes, rounded up.
constexpr std::size_t int4_bytes(std::size_t count) noexcept {
  const std::size_t rest = count % kInt4Block;
  return count / kInt4Block * (2 + kInt4Block / 2) + (rest == 0 ? 0 : 2 + (rest + 1) / 2);
}

/// Encodes f32 elements as whole numbers from -7 to 7. A number stands for itself times the scale of its block.
/// The scale is the largest magnitude of the block over 7, rounded up to bf16.
/// A finite element decodes to a number that differs from it by at most largest / 13.8, or by 2^-127 where that is
/// more. `largest` is the block's largest magnitude. If an element is infinite or NaN, each element of its block
/// decodes to NaN.
/// Layout: for each block the scale as bf16, little-endian, and a byte for each two elements. In a block of n elements,
///         byte j has element j in its lower half and element j + (n + 1) / 2 in its upper half.
/// Shape:  `to` has int4_bytes(count) bytes. Any alignment.
/// Cost:   every CPU gives the same bits.
/// Source: the symmetric blocks of ZeRO++ (Wang et al., arXiv 2306.10209), with smaller blocks.
SINEW_API void encode_int4(const float* from, std::size_t count, std::byte* to) noexcept;

/// sums[i] += the decoded element i, rounded once.
SINEW_API void add_int4(const std::byte* coded, std::size_t count, float* sums) noexcept;

}  // namespace sinew::parallel
