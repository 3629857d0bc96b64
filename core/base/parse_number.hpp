#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace sinew {

/// The number that all of a text is, in digits of `base` without a prefix; nullopt where it is none, or one that a
/// Number cannot hold.
template <std::integral Number>
std::optional<Number> parse_number(std::string_view text, int base = 10) noexcept {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, value, base);
  return error == std::errc{} && read == end ? std::optional(value) : std::nullopt;
}

}  // namespace sinew
