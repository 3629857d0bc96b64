#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

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

/// The two numbers of "2:8"; nullopt where the text is something else.
template <std::integral Number>
std::optional<std::pair<Number, Number>> parse_number_pair(std::string_view text) noexcept {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto first = parse_number<Number>(text.substr(0, colon));
  const auto second = parse_number<Number>(text.substr(colon + 1));
  return first && second ? std::optional(std::pair(*first, *second)) : std::nullopt;
}

}  // namespace sinew
