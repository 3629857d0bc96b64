#pragma once

#include <ranges>
#include <type_traits>

#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>

namespace sinew {

/// A contiguous range of plain values, which a message can carry. The values need no dtype.
template <class R>
concept PlainRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
                     std::is_trivially_copyable_v<std::ranges::range_value_t<R>>;

/// A PlainRange whose values may be written.
template <class R>
concept WritableRange = PlainRange<R> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

/// A contiguous range of elements of a known dtype.
template <class R>
concept ElementRange = PlainRange<R> && requires { DTypeOf<std::remove_cv_t<std::ranges::range_value_t<R>>>::value; };

/// An ElementRange whose elements may be written.
template <class R>
concept WritableElements = ElementRange<R> && WritableRange<R>;

/// The memory of a range.
template <WritableRange R>
Buffer buffer_of(R&& r) noexcept {
  return {reinterpret_cast<std::byte*>(std::ranges::data(r)),
          std::ranges::size(r) * sizeof(std::ranges::range_value_t<R>)};
}

/// The memory of a range, for reading.
template <PlainRange R>
ConstBuffer const_buffer_of(const R& r) noexcept {
  return {reinterpret_cast<const std::byte*>(std::ranges::data(r)),
          std::ranges::size(r) * sizeof(std::ranges::range_value_t<R>)};
}

}  // namespace sinew
