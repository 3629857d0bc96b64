#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include <nlohmann/json_fwd.hpp>

#include <sinew/core/transport.hpp>

namespace sinew {

/// What ranks tell each other of themselves while a World starts, as bytes.
SINEW_API Bytes to_cbor(const nlohmann::json& value);
/// Errors: nlohmann's.
SINEW_API nlohmann::json from_cbor(std::span<const std::byte> bytes);

/// What is no integer, or outside of that, is Error{Mismatch}: nlohmann converts any number, even into what does not
/// hold it.
SINEW_API std::int64_t whole_between(const nlohmann::json& value, std::int64_t least, std::int64_t most);
SINEW_API std::uint64_t whole_up_to(const nlohmann::json& value, std::uint64_t most);

/// An integer that T holds.
template <std::integral T>
T whole(const nlohmann::json& value) {
  using Limits = std::numeric_limits<T>;
  if constexpr (Limits::is_signed) return static_cast<T>(whole_between(value, Limits::min(), Limits::max()));
  return static_cast<T>(whole_up_to(value, static_cast<std::uint64_t>(Limits::max())));
}

}  // namespace sinew
