#pragma once

#include <cstddef>
#include <span>

#include <nlohmann/json_fwd.hpp>

#include <sinew/core/transport.hpp>

namespace sinew {

/// What ranks tell each other of themselves while a World starts, as bytes.
Bytes to_cbor(const nlohmann::json& value);
/// Errors: nlohmann's.
nlohmann::json from_cbor(std::span<const std::byte> bytes);

}  // namespace sinew
