#pragma once

#include <string_view>

namespace sinew {

/// Is `name` one of the names with commas between them? None is empty.
constexpr bool is_among(std::string_view names, std::string_view name) noexcept {
  while (!name.empty() && !names.empty()) {
    const std::size_t comma = names.find(',');
    if (names.substr(0, comma) == name) return true;
    names.remove_prefix(comma == std::string_view::npos ? names.size() : comma + 1);
  }
  return false;
}

}  // namespace sinew
