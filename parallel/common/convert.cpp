#include <algorithm>
#include <array>
#include <cstring>

#include <sinew/core/float_formats.hpp>
#include <sinew/core/numeric/codec.hpp>
#include <sinew/parallel/common/convert.hpp>

namespace sinew::parallel {
namespace {

template <class T>
T element_at(const std::byte* from, std::int64_t i) noexcept {
  T value;
  std::memcpy(&value, from + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void put_element(std::byte* to, std::int64_t i, T value) noexcept {
  std::memcpy(to + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
}

template <class T, class Convert>
void widen(const std::byte* from, float* to, std::int64_t count, const Convert& convert) noexcept {
  for (std::int64_t i = 0; i < count; ++i) to[i] = convert(element_at<T>(from, i));
}

template <class Convert>
void narrow(const float* from, std::byte* to, std::int64_t count, const Convert& convert) noexcept {
  for (std::int64_t i = 0; i < count; ++i) put_element(to, i, convert(from[i]));
}

constexpr auto kToFloat = [](auto value) { return to_float(value); };

void to_floats(const std::byte* from, DType dtype, float* to, std::int64_t count) noexcept {
  switch (dtype) {
    case DType::F16: return widen<Half>(from, to, count, kToFloat);
    case DType::BF16: return widen<BFloat16>(from, to, count, kToFloat);
    case DType::F8E4M3: return widen<Float8E4M3>(from, to, count, kToFloat);
    case DType::F8E5M2: return widen<Float8E5M2>(from, to, count, kToFloat);
    case DType::F32: return widen<float>(from, to, count, [](float value) { return value; });
    case DType::F64: return widen<double>(from, to, count, [](double value) { return static_cast<float>(value); });
    case DType::I8:
    case DType::U8:
    case DType::I16:
    case DType::U16:
    case DType::I32:
    case DType::U32:
    case DType::I64:
    case DType::U64:
    case DType::Bool: return;  // callers refuse them
  }
}

void from_floats(const float* from, std::byte* to, DType dtype, std::int64_t count) noexcept {
  switch (dtype) {
    case DType::F16: return narrow(from, to, count, [](float value) { return to_half(value); });
    case DType::BF16: return narrow(from, to, count, [](float value) { return to_bfloat16(value); });
    case DType::F8E4M3: return narrow(from, to, count, [](float value) { return to_float8_e4m3(value); });
    case DType::F8E5M2: return narrow(from, to, count, [](float value) { return to_float8_e5m2(value); });
    case DType::F32: return narrow(from, to, count, [](float value) { return value; });
    case DType::F64: return narrow(from, to, count, [](float value) { return static_cast<double>(value); });
    case DType::I8:
    case DType::U8:
    case DType::I16:
    case DType::U16:
    case DType::I32:
    case DType::U32:
    case DType::I64:
    case DType::U64:
    case DType::Bool: return;  // callers refuse them
  }
}

/// The codec whose messages are elements of this dtype.
Codec codec_of(DType dtype) noexcept {
  return dtype == DType::BF16 ? Codec::Bf16 : dtype == DType::F16 ? Codec::F16 : Codec::None;
}

}  // namespace

void convert(const std::byte* from, DType from_dtype, std::byte* to, DType to_dtype, std::int64_t count) noexcept {
  if (from_dtype == to_dtype) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * size_of(from_dtype));
    return;
  }
  // A codec fills whole words of two elements, so the last element of an odd number is converted below.
  std::int64_t done = 0;
  const auto pairs = static_cast<std::size_t>(count / 2 * 2);
  if (from_dtype == DType::F32 && codec_of(to_dtype) != Codec::None) {
    codec_kernels(codec_of(to_dtype)).encode(to, from, pairs);
    done = count / 2 * 2;
  } else if (to_dtype == DType::F32 && codec_of(from_dtype) != Codec::None) {
    codec_kernels(codec_of(from_dtype)).decode(to, from, pairs);
    done = count / 2 * 2;
  }
  std::array<float, 256> floats{};
  while (done < count) {
    const std::int64_t some = std::min<std::int64_t>(std::ssize(floats), count - done);
    to_floats(from + static_cast<std::size_t>(done) * size_of(from_dtype), from_dtype, floats.data(), some);
    from_floats(floats.data(), to + static_cast<std::size_t>(done) * size_of(to_dtype), to_dtype, some);
    done += some;
  }
}

}  // namespace sinew::parallel
