#include <cstdint>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sinew/core/error.hpp>
#include <sinew/topology/format/json/cbor.hpp>

namespace sinew {

Bytes to_cbor(const nlohmann::json& value) {
  const std::vector<std::uint8_t> packed = nlohmann::json::to_cbor(value);
  const auto* first = reinterpret_cast<const std::byte*>(packed.data());
  return {first, first + packed.size()};
}

nlohmann::json from_cbor(std::span<const std::byte> bytes) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return nlohmann::json::from_cbor(first, first + bytes.size());
}

std::int64_t whole_between(const nlohmann::json& value, std::int64_t least, std::int64_t most) {
  const bool held = value.is_number_unsigned() ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX)
                                               : value.is_number_integer();
  const std::int64_t number = held ? value.get<std::int64_t>() : 0;
  if (held && number >= least && number <= most) return number;
  throw Error(Code::Mismatch,
              fmt::format("a {} where an integer from {} to {} should be", value.type_name(), least, most));
}

std::uint64_t whole_up_to(const nlohmann::json& value, std::uint64_t most) {
  const bool held = value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0);
  const std::uint64_t number = held ? value.get<std::uint64_t>() : 0;
  if (held && number <= most) return number;
  throw Error(Code::Mismatch, fmt::format("a {} where an integer from 0 to {} should be", value.type_name(), most));
}

}  // namespace sinew
