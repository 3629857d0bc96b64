#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include <sinew/c/border/arguments.hpp>
#include <sinew/core/error.hpp>

namespace sinew::c {

void reject(const char* function, std::string_view why) {
  throw Error(Code::InvalidArgument, fmt::format("{}: {}", function, why));
}

void reject_pointer(const char* function, const char* what) {
  reject(function, fmt::format("{} is a null pointer", what));
}

void reject_number(const char* function, const char* what, int found, std::size_t count) {
  reject(function, fmt::format("{} is {}, expected 0 to {}", what, found, count - 1));
}

void reject_unused(const char* function, const char* member, std::int64_t found) {
  reject(function, fmt::format("{} is {}, expected 0: set the whole struct to its initial value, or to zeros, first",
                               member, found));
}

void reject_struct_size(const char* function, const char* type, std::size_t found, std::size_t expected) {
  reject(function,
         fmt::format("struct_size of {0} is {1}, expected {2}: set it to sizeof({0}), and compile the program "
                     "against the header of the library that it runs with",
                     type, found, expected));
}

void reject_bytes(const char* function, std::uint64_t count, std::uint64_t blocks, DType dtype) {
  reject(function, fmt::format("{} block{} of {} elements of {} are more than the {} bytes of an address space", blocks,
                               blocks == 1 ? "" : "s", count, name_of(dtype), PTRDIFF_MAX));
}

Deadline deadline_of(const char* function, const char* what, double seconds) {
  constexpr double kMost = 1e9;  // more than a clock of nanoseconds may have left
  if (std::isnan(seconds)) reject(function, fmt::format("{} is not a number, expected seconds", what));
  if (seconds <= 0) return {};
  if (seconds >= kMost) return Deadline::never();
  return Deadline::after(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
}

void copy_text(const char* function, std::string_view text, char* buffer, std::size_t bytes, std::size_t* needed) {
  if (buffer == nullptr && bytes != 0) reject(function, fmt::format("text is a null pointer, but bytes is {}", bytes));
  if (needed != nullptr) *needed = text.size() + 1;
  if (bytes == 0) return;
  const std::size_t copied = std::min(text.size(), bytes - 1);
  std::memcpy(buffer, text.data(), copied);
  buffer[copied] = '\0';
}

}  // namespace sinew::c
