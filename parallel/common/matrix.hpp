#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>

// Functions on rows and columns that several layers use. T: float or double.
namespace sinew::parallel {

template <class T>
constexpr DType dtype_of_layer() noexcept {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  return sizeof(T) == 8 ? DType::F64 : DType::F32;
}
template <class T>
ConstBuffer elements_of(const T* data, std::int64_t count) noexcept {
  return {reinterpret_cast<const std::byte*>(data), static_cast<std::size_t>(count) * sizeof(T)};
}
template <class T>
Buffer elements_of(T* data, std::int64_t count) noexcept {
  return {reinterpret_cast<std::byte*>(data), static_cast<std::size_t>(count) * sizeof(T)};
}

/// A count as an int, as matrix products take it. A layer with a larger count is too large for any memory.
constexpr int as_int(std::int64_t n) noexcept { return static_cast<int>(n); }

/// Copies rows of `width` elements. The strides are elements from one row to the next.
template <class T>
void copy_rows(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride, std::int64_t rows,
               std::int64_t width) noexcept {
  for (std::int64_t r = 0; r < rows; ++r) std::copy_n(from + r * from_stride, width, to + r * to_stride);
}
/// Adds `row` to each row of `to`. stride: elements from one row to the next.
template <class T>
void add_to_rows(const T* row, std::int64_t rows, std::int64_t columns, std::int64_t stride, T* to) noexcept {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) to[r * stride + c] += row[c];
  }
}
/// to = beta * to + the sum of all rows.
template <class T>
void sum_rows(const T* from, std::int64_t rows, std::int64_t columns, std::int64_t stride, T beta, T* to) noexcept {
  for (std::int64_t c = 0; c < columns; ++c) to[c] = beta == T{0} ? T{0} : beta * to[c];
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) to[c] += from[r * stride + c];
  }
}

}  // namespace sinew::parallel
