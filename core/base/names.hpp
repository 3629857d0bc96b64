#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace sinew {

/// A spelling of an enumerator. The first row of a value has the name that is printed; the others are read only.
template <class Enum>
struct Spelling {
  std::string_view name;
  Enum value;
};

template <class Enum, std::size_t N>
constexpr std::string_view find_name(const Spelling<Enum> (&table)[N], Enum value) noexcept {
  for (const auto& row : table) {
    if (row.value == value) return row.name;
  }
  return "?";
}

template <class Enum, std::size_t N>
constexpr std::optional<Enum> find_value(const Spelling<Enum> (&table)[N], std::string_view name) noexcept {
  for (const auto& row : table) {
    if (row.name == name) return row.value;
  }
  return std::nullopt;
}

}  // namespace sinew
