#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include <sinew/collectives/cbor.hpp>

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

}  // namespace sinew
