#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace sinew {

/// Returns the text of a user as an error shows it: all of it, or the beginning and the length of a long one.
inline std::string shown_value(std::string_view text) {
  constexpr std::size_t kMostBytes = 60;
  if (text.size() <= kMostBytes) return std::string(text);
  std::size_t end = kMostBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not within a character of UTF-8
  return fmt::format("{}.. ({} bytes)", text.substr(0, end), text.size());
}

}  // namespace sinew
