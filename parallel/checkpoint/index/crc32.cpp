#include <zlib.h>

#include <sinew/parallel/checkpoint/index/crc32.hpp>

namespace sinew::parallel {

std::uint32_t crc32(std::span<const std::byte> bytes) noexcept {
  const auto* data = reinterpret_cast<const Bytef*>(bytes.data());
  return static_cast<std::uint32_t>(::crc32_z(0, data, bytes.size()));
}

}  // namespace sinew::parallel
