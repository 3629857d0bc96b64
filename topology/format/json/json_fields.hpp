#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <sinew/core/error.hpp>
#include <sinew/core/transport.hpp>

/// Two visitors that write and read structs whose fields are listed once, in `fields(visitor, struct)` found by
/// argument (topology_fields.hpp); for the sources in this folder.
namespace sinew::json_fields {

using Json = nlohmann::ordered_json;

/// Errors: Error{InvalidArgument} with line and column.
Json parse(std::string_view text);
Bytes bytes_of(std::string_view text);
std::string_view text_of(const Bytes& bytes) noexcept;

/// "nics[2].bytes_per_s: expected a number or null, found a string".
[[noreturn]] void reject(const std::string& path, std::string_view expected, const Json& found);
[[noreturn]] void reject_absent(const std::string& path, std::string_view key);

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

/// A part that not every machine has: an object or null. A number that may be unknown is no part.
template <class T>
struct IsOptionalPart : std::false_type {};
template <class T>
struct IsOptionalPart<std::optional<T>> : std::negation<std::is_arithmetic<T>> {};

struct Writer {
  template <class T>
  using Access = const T;
  Json& out;

  template <class T>
  void operator()(const char* key, const T& value) {
    out[key] = written(value);
  }
  template <class T>
  void optional(const char* key, const T& value) {
    (*this)(key, value);
  }
  template <class T>
  static Json written(const T& value);
};

struct Reader {
  template <class T>
  using Access = T;
  const Json& in;
  std::string path;
  std::vector<std::string>* unknown = nullptr;  ///< gets the paths of the members that no field has; null: skips them
  std::vector<std::string_view> fields_read{};

  template <class T>
  void operator()(const char* key, T& value) {
    if (!in.is_object()) reject(path, "an object", in);
    if (!in.contains(key)) reject_absent(path, key);
    optional(key, value);
  }
  /// A field that came after the first version of the format: where it is absent, `value` stays.
  template <class T>
  void optional(const char* key, T& value) {
    fields_read.emplace_back(key);
    if (const auto found = in.find(key); found != in.end()) read(*found, path_of(key), value);
  }
  template <class T>
  void read(const Json& from, const std::string& at, T& value);

  std::string path_of(std::string_view key) const;
  /// After the last field.
  void list_unknown() const;
};

template <class T>
Json Writer::written(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return std::string(name_of(value));
  } else if constexpr (std::is_same_v<T, std::optional<double>>) {
    return value ? Json(*value) : Json(nullptr);
  } else if constexpr (IsOptionalPart<T>::value) {
    return value ? written(*value) : Json(nullptr);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (IsVector<T>::value) {
    Json array = Json::array();
    for (const auto& element : value) array.push_back(written(element));
    return array;
  } else {
    Json object = Json::object();
    fields(Writer{object}, value);
    return object;
  }
}

template <class T>
void read_integer(const Json& from, const std::string& at, T& value) {
  const std::string expected =
      fmt::format("an integer from {} to {}", std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
  if (!from.is_number_integer()) reject(at, expected, from);
  const bool fits = from.is_number_unsigned() ? std::in_range<T>(from.get<std::uint64_t>())
                                              : std::in_range<T>(from.get<std::int64_t>());
  if (!fits) reject(at, expected, from);
  value = from.get<T>();
}

template <class T>
void read_name(const Json& from, const std::string& at, T& value) {
  std::vector<std::string_view> names;
  for (int i = 0; !name_of(static_cast<T>(i)).empty(); ++i) {
    if (from == name_of(static_cast<T>(i))) {
      value = static_cast<T>(i);
      return;
    }
    names.push_back(name_of(static_cast<T>(i)));
  }
  reject(at, fmt::format("one of {}", fmt::join(names, " ")), from);
}

template <class T>
void Reader::read(const Json& from, const std::string& at, T& value) {
  if constexpr (std::is_enum_v<T>) {
    read_name(from, at, value);
  } else if constexpr (std::is_same_v<T, std::optional<double>>) {
    if (!from.is_number() && !from.is_null()) reject(at, "a number or null", from);
    value = from.is_null() ? std::nullopt : std::optional(from.get<double>());
  } else if constexpr (IsOptionalPart<T>::value) {
    value.reset();
    if (!from.is_null()) read(from, at, value.emplace());
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!from.is_boolean()) reject(at, "true or false", from);
    value = from.get<bool>();
  } else if constexpr (std::is_integral_v<T>) {
    read_integer(from, at, value);
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!from.is_number()) reject(at, "a number", from);
    value = from.get<T>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!from.is_string()) reject(at, "a string", from);
    value = from.get<std::string>();
  } else if constexpr (IsVector<T>::value) {
    if (!from.is_array()) reject(at, "a list", from);
    value.resize(from.size());
    for (std::size_t i = 0; i < value.size(); ++i) read(from[i], fmt::format("{}[{}]", at, i), value[i]);
  } else {
    Reader inside{from, at, unknown};
    fields(inside, value);
    inside.list_unknown();
  }
}

}  // namespace sinew::json_fields
