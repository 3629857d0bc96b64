#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// A named value of a JSON object.
struct JsonField {
  using Value = std::variant<bool, std::int64_t, std::uint64_t, double, std::string>;

  template <class T>
  JsonField(std::string_view field, const T& shown) : name(field), value(value_of(shown)) {}
  /// A number rounded to so many digits behind the point.
  SINEW_API JsonField(std::string_view field, double shown, int digits);

  std::string name;
  Value value;

 private:
  template <class T>
  static Value value_of(const T& shown) {
    if constexpr (std::same_as<T, bool>) {
      return shown;
    } else if constexpr (std::unsigned_integral<T>) {
      return std::uint64_t{shown};
    } else if constexpr (std::signed_integral<T>) {
      return std::int64_t{shown};
    } else if constexpr (std::floating_point<T>) {
      return double{shown};
    } else {
      return std::string(shown);
    }
  }
};

/// A JSON object of these fields, on one line and in their order. Names and texts may hold any bytes: quotes are
/// escaped, and what is not UTF-8 becomes U+FFFD. A number that is not finite is null.
SINEW_API std::string json_object(const std::vector<JsonField>& fields);

}  // namespace sinew
