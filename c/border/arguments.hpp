#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <sinew/core/deadline.hpp>
#include <sinew/core/dtype.hpp>

namespace sinew::c {

[[noreturn]] void reject(const char* function, std::string_view why);
[[noreturn]] void reject_pointer(const char* function, const char* what);
[[noreturn]] void reject_number(const char* function, const char* what, int found, std::size_t count);
[[noreturn]] void reject_unused(const char* function, const char* member, std::int64_t found);
[[noreturn]] void reject_struct_size(const char* function, const char* type, std::size_t found, std::size_t expected);
[[noreturn]] void reject_bytes(const char* function, std::uint64_t count, std::uint64_t blocks, DType dtype);

/// Errors: InvalidArgument for a null pointer.
template <class T>
T& require_pointer(const char* function, const char* what, T* pointer) {
  if (pointer == nullptr) reject_pointer(function, what);
  return *pointer;
}

/// Reads an enumeration, which may have any number in C, as one of the C++ API with `count` enumerators.
/// Errors: InvalidArgument for a number that is no enumerator.
template <class Enum>
Enum enum_of(const char* function, const char* what, int found, std::size_t count) {
  if (static_cast<std::size_t>(found) >= count) [[unlikely]]
    reject_number(function, what, found, count);
  return static_cast<Enum>(found);
}

inline DType dtype_of(const char* function, int found) { return enum_of<DType>(function, "dtype", found, kDTypeCount); }

/// Errors: InvalidArgument for the size of another version of the struct.
template <class Struct>
void require_struct_size(const char* function, const char* type, const Struct& given) {
  if (given.struct_size != sizeof(Struct)) reject_struct_size(function, type, given.struct_size, sizeof(Struct));
}

/// Checks a member that is called `unused`. It must be 0, because a later version may give it a meaning.
/// Errors: InvalidArgument if it is not 0.
inline void require_unused(const char* function, const char* member, std::int64_t found) {
  if (found != 0) [[unlikely]]
    reject_unused(function, member, found);
}

/// The bytes of `blocks` blocks of `count` elements.
/// Errors: InvalidArgument if no buffer can be so long.
inline std::size_t bytes_of(const char* function, std::uint64_t count, std::uint64_t blocks, DType dtype) {
  std::size_t bytes = 0;
  const bool fits = !__builtin_mul_overflow(count, blocks, &bytes) &&
                    !__builtin_mul_overflow(bytes, size_of(dtype), &bytes) && bytes <= PTRDIFF_MAX;
  if (!fits) [[unlikely]]
    reject_bytes(function, count, blocks, dtype);
  return bytes;
}

/// A deadline so many seconds from now. At 0 or below it is not given.
/// Errors: InvalidArgument if `seconds` is not a number.
Deadline deadline_of(const char* function, const char* what, double seconds);

/// Writes `text` as functions of the C API return texts.
/// Errors: InvalidArgument for a null buffer that is said to have bytes.
void copy_text(const char* function, std::string_view text, char* buffer, std::size_t bytes, std::size_t* needed);

}  // namespace sinew::c
