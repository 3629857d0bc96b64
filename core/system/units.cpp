#include <charconv>
#include <limits>

#include <fmt/format.h>

#include <sinew/core/base/shown_value.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

struct Unit {
  std::string_view suffix;
  std::uint64_t factor;
};

constexpr std::uint64_t kTiB = std::uint64_t{1} << 40;

/// Leading decimal digits and the rest; nullopt if there are no digits or too many.
std::optional<std::pair<std::uint64_t, std::string_view>> split_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  return std::pair{value, text.substr(static_cast<std::size_t>(end - text.data()))};
}

std::optional<std::uint64_t> scaled(std::string_view text, std::span<const Unit> units) {
  const auto number = split_number(text);
  if (!number) return std::nullopt;
  for (const Unit& u : units) {
    if (number->second == u.suffix && number->first <= std::numeric_limits<std::uint64_t>::max() / u.factor) {
      return number->first * u.factor;
    }
  }
  return std::nullopt;
}

}  // namespace

std::uint64_t parse_bytes(std::string_view text) {
  static constexpr Unit kUnits[] = {{"", 1},        {"B", 1},         {"K", 1 << 10}, {"KiB", 1 << 10},
                                    {"M", 1 << 20}, {"MiB", 1 << 20}, {"G", 1 << 30}, {"GiB", 1 << 30},
                                    {"k", 1 << 10}, {"m", 1 << 20},   {"g", 1 << 30}, {"T", kTiB},
                                    {"TiB", kTiB},  {"t", kTiB}};
  if (const auto bytes = scaled(text, kUnits)) return *bytes;
  throw Error(Code::InvalidArgument,
              fmt::format("'{}': expected a size in bytes such as 8, 4KiB, 64MiB, 1GiB or 2TiB", shown_value(text)));
}

Duration parse_duration(std::string_view text) {
  static constexpr Unit kUnits[] = {{"us", 1}, {"ms", 1000}, {"s", 1000000}, {"min", 60000000}, {"h", 3600000000}};
  const auto us = scaled(text, kUnits);
  if (us && *us < std::uint64_t{1} << 53) return std::chrono::microseconds(*us);
  throw Error(Code::InvalidArgument,
              fmt::format("'{}': expected a duration such as 500ms, 30s or 5min", shown_value(text)));
}

std::string format_bytes(std::uint64_t bytes) {
  static constexpr Unit kUnits[] = {{"TiB", kTiB}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}};
  for (const Unit& u : kUnits) {
    if (bytes != 0 && bytes % u.factor == 0) return fmt::format("{}{}", bytes / u.factor, u.suffix);
  }
  return fmt::format("{}B", bytes);
}

}  // namespace sinew
