#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/core/float_formats.hpp>

namespace sinew {

/// Element types. The 16-bit and 8-bit floats are computed in f32 and rounded once per result. An element of Bool is a
/// byte that is 0 or 1. Its sum and its maximum are "or". Its product and its minimum are "and".
/// Logs of calls store these numbers, so a new type must be added at the end.
enum class DType : std::uint8_t { I8, U8, I32, U32, I64, U64, F16, BF16, F32, F64, F8E4M3, F8E5M2, Bool, I16, U16 };

inline constexpr std::size_t kDTypeCount = 15;

/// The bytes of an element of each dtype. The table is not inside size_of(), because GCC would write it onto the stack
/// in each call.
inline constexpr std::uint8_t kElementBytes[kDTypeCount] = {1, 1, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1, 1, 2, 2};

constexpr std::size_t size_of(DType t) noexcept { return kElementBytes[static_cast<std::size_t>(t)]; }

/// True for whole numbers and Bool. They have bitwise operators, and their sums have the same bits in any order.
constexpr bool is_integer(DType t) noexcept { return t <= DType::U64 || t >= DType::Bool; }
constexpr bool is_signed_integer(DType t) noexcept {
  return t == DType::I8 || t == DType::I16 || t == DType::I32 || t == DType::I64;
}

/// "f32", "bf16", "f8e4m3", ...: the names that the tools take and print.
SINEW_API std::string_view name_of(DType t) noexcept;
SINEW_API std::optional<DType> dtype_from_name(std::string_view name) noexcept;
SINEW_API std::span<const DType> all_dtypes() noexcept;

/// DType of a C++ element type, for the typed overloads. Integers, char and long long among them, go by size and sign.
/// std::byte is u8.
template <class T>
struct DTypeOf;
template <class T>
  requires(std::integral<T> && sizeof(T) <= 8)
struct DTypeOf<T> {
 private:
  static constexpr DType pick(DType if_signed, DType if_unsigned) noexcept {
    return std::signed_integral<T> ? if_signed : if_unsigned;
  }

 public:
  static constexpr DType value = std::same_as<T, bool> ? DType::Bool
                                 : sizeof(T) == 1      ? pick(DType::I8, DType::U8)
                                 : sizeof(T) == 2      ? pick(DType::I16, DType::U16)
                                 : sizeof(T) == 4      ? pick(DType::I32, DType::U32)
                                                       : pick(DType::I64, DType::U64);
};
template <>
struct DTypeOf<std::byte> {
  static constexpr DType value = DType::U8;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::F16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::BF16;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::F32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::F64;
};
template <>
struct DTypeOf<Float8E4M3> {
  static constexpr DType value = DType::F8E4M3;
};
template <>
struct DTypeOf<Float8E5M2> {
  static constexpr DType value = DType::F8E5M2;
};

template <class T>
inline constexpr DType kDTypeOf = DTypeOf<std::remove_cv_t<T>>::value;

}  // namespace sinew
