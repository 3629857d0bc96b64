#include <algorithm>
#include <array>

#include <sinew/parallel/common/convert.hpp>
#include <sinew/parallel/data_parallel/wire/coded_elements.hpp>

namespace sinew::parallel {
namespace {

/// Elements that are converted at a time. Their f32 values stay in the L1 cache. Whole blocks of both kinds fit.
constexpr std::int64_t kConverted = 16 * kScaledBlock;
static_assert(kConverted % kInt4Block == 0);

using Converted = std::array<float, kConverted>;

/// Calls visit(first element, elements) for all pieces of `count` elements.
template <class Visit>
void for_each_piece(std::int64_t count, const Visit& visit) {
  for (std::int64_t first = 0; first < count; first += kConverted) visit(first, std::min(kConverted, count - first));
}

std::byte* bytes_of_floats(Converted& floats) noexcept { return reinterpret_cast<std::byte*>(floats.data()); }

std::size_t bytes_before(std::int64_t element, DType dtype) noexcept {
  return static_cast<std::size_t>(element) * size_of(dtype);
}

/// Calls encode(f32 elements, how many, first element) for all pieces.
template <class Encode>
void encode_pieces(const std::byte* from, DType dtype, std::int64_t count, const Encode& encode) {
  Converted floats;
  for_each_piece(count, [&](std::int64_t first, std::int64_t some) {
    convert(from + bytes_before(first, dtype), dtype, bytes_of_floats(floats), DType::F32, some);
    encode(floats.data(), some, first);
  });
}

}  // namespace

void encode_int8(const std::byte* from, DType dtype, std::int64_t count, std::byte* to) noexcept {
  const CodecKernels kernels = codec_kernels(Codec::Int8);
  encode_pieces(from, dtype, count, [&](const float* floats, std::int64_t some, std::int64_t first) {
    kernels.encode(to + int8_bytes(first), floats, static_cast<std::size_t>(some));
  });
}

void decode_int8(const std::byte* coded, std::byte* to, DType dtype, std::int64_t count) noexcept {
  const CodecKernels kernels = codec_kernels(Codec::Int8);
  Converted floats;
  for_each_piece(count, [&](std::int64_t first, std::int64_t some) {
    kernels.decode(floats.data(), coded + int8_bytes(first), static_cast<std::size_t>(some));
    convert(bytes_of_floats(floats), DType::F32, to + bytes_before(first, dtype), dtype, some);
  });
}

void encode_int4(const std::byte* from, DType dtype, std::int64_t count, std::byte* to) noexcept {
  encode_pieces(from, dtype, count, [&](const float* floats, std::int64_t some, std::int64_t first) {
    encode_int4(floats, static_cast<std::size_t>(some), to + int4_bytes(static_cast<std::size_t>(first)));
  });
}

void sum_int4(std::span<const std::byte* const> contributions, float factor, std::byte* to, DType dtype,
              std::int64_t count) noexcept {
  Converted sums;
  for_each_piece(count, [&](std::int64_t first, std::int64_t some) {
    const auto elements = static_cast<std::size_t>(some);
    std::fill_n(sums.begin(), some, 0.0f);
    for (const std::byte* const coded : contributions)
      add_int4(coded + int4_bytes(static_cast<std::size_t>(first)), elements, sums.data());
    for (std::size_t i = 0; i < elements; ++i) sums[i] *= factor;
    convert(bytes_of_floats(sums), DType::F32, to + bytes_before(first, dtype), dtype, some);
  });
}

}  // namespace sinew::parallel
