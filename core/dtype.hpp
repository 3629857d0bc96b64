#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <sinew/core/export.hpp>
#include <sinew/core/float_formats.hpp>

namespace sinew {

/// Element types. The 16-bit and 8-bit floats are computed in f32 and rounded once per result.
enum class DType : std::uint8_t { I8, U8, I32, U32, I64, U64, F16, BF16, F32, F64, F8E4M3, F8E5M2 };

inline constexpr std::size_t kDTypeCount = 12;

constexpr std::size_t size_of(DType t) noexcept {
  constexpr std::uint8_t kBytes[kDTypeCount] = {1, 1, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1};
  return kBytes[static_cast<std::size_t>(t)];
}

constexpr bool is_integer(DType t) noexcept { return t <= DType::U64; }

/// "f32", "bf16", "f8e4m3", ...: the names that the tools take and print.
SINEW_API std::string_view name_of(DType t) noexcept;
SINEW_API std::optional<DType> dtype_from_name(std::string_view name) noexcept;
SINEW_API std::span<const DType> all_dtypes() noexcept;

/// DType of a C++ element type, for the typed overloads.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::I8;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::U8;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::I32;
};
template <>
struct DTypeOf<std::uint32_t> {
  static constexpr DType value = DType::U32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::I64;
};
template <>
struct DTypeOf<std::uint64_t> {
  static constexpr DType value = DType::U64;
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
