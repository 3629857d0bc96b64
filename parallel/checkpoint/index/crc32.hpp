#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// CRC-32 of zlib, PNG and Ethernet (polynomial 0xEDB88320, reflected); "123456789" has 0xCBF43926.
SINEW_API std::uint32_t crc32(std::span<const std::byte> bytes) noexcept;

}  // namespace sinew::parallel
