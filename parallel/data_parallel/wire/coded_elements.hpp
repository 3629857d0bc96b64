#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <sinew/core/base/export.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/core/numeric/codec.hpp>
#include <sinew/parallel/data_parallel/wire/int4_blocks.hpp>

namespace sinew::parallel {

// Elements of f64, f32, bf16 or f16 as blocks of whole numbers. Elements become f32 before they are encoded. So an
// element of f64 that is too large for f32 is infinite, and its block arrives as NaN. Decoded elements are made in f32
// and rounded to nearest even. Any alignment.

/// Bytes of `count` elements as the blocks of Codec::Int8.
constexpr std::size_t int8_bytes(std::int64_t count) noexcept {
  return static_cast<std::size_t>(wire_bytes(Codec::Int8, static_cast<std::uint64_t>(count)));
}

/// Shape: `to` has int8_bytes(count) bytes.
SINEW_API void encode_int8(const std::byte* from, DType dtype, std::int64_t count, std::byte* to) noexcept;
/// Shape: the coded bytes may be the last bytes of the elements' memory, if the elements have a multiple of 64 bytes.
///        Then each remaining part of the elements is at least as long as its codes.
SINEW_API void decode_int8(const std::byte* coded, std::byte* to, DType dtype, std::int64_t count) noexcept;

/// Shape: `to` has int4_bytes(count) bytes.
SINEW_API void encode_int4(const std::byte* from, DType dtype, std::int64_t count, std::byte* to) noexcept;
/// Decodes `count` elements of each of `contributions` and adds them in f32, in their order. `to` becomes the sum times
/// `factor`. It overlaps no contribution.
SINEW_API void sum_int4(std::span<const std::byte* const> contributions, float factor, std::byte* to, DType dtype,
                        std::int64_t count) noexcept;

}  // namespace sinew::parallel
