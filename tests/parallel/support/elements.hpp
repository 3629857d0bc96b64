#pragma once

#include <cstddef>
#include <cstring>

#include <sinew/core/dtype.hpp>
#include <sinew/core/float_formats.hpp>

namespace sinew::parallel::test {

/// The element of f64, f32, bf16 or f16 that lies there.
inline double value_of(DType dtype, const std::byte* from) {
  const auto read = [&]<class T>(T to) {
    std::memcpy(&to, from, sizeof(T));
    return to;
  };
  switch (dtype) {
    case DType::F64: return read(double{});
    case DType::F32: return static_cast<double>(read(float{}));
    case DType::BF16: return static_cast<double>(to_float(read(BFloat16{})));
    default: return static_cast<double>(to_float(read(Half{})));
  }
}

/// Writes the value, rounded to the dtype.
inline void put(DType dtype, std::byte* to, double value) {
  const auto write = [&](const auto v) { std::memcpy(to, &v, sizeof(v)); };
  switch (dtype) {
    case DType::F64: return write(value);
    case DType::F32: return write(static_cast<float>(value));
    case DType::BF16: return write(to_bfloat16(static_cast<float>(value)));
    default: return write(to_half(static_cast<float>(value)));
  }
}

/// The share by which rounding to the dtype can move a number.
inline double rounding_of(DType dtype) {
  return dtype == DType::BF16 ? 1.0 / 256 : dtype == DType::F16 ? 1.0 / 2048 : 1e-7;
}

}  // namespace sinew::parallel::test
