#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace sinew {

using Bytes = std::vector<std::byte>;

/// As wide as a device number: a Place has no padding, and is written and copied as one word.
enum class MemoryKind : std::int32_t { Host, PinnedHost, Device };

/// Where memory lies. `device` is the CUDA ordinal for Device and PinnedHost, -1 for Host.
struct Place {
  MemoryKind kind = MemoryKind::Host;
  int device = -1;
  friend bool operator==(const Place&, const Place&) = default;
};

/// A view of bytes that may be written; never owns.
struct Buffer {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  Place place{};

  Buffer part(std::size_t offset, std::size_t length) const noexcept { return {data + offset, length, place}; }
};

/// A view of bytes that are only read; never owns.
struct ConstBuffer {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  Place place{};

  ConstBuffer() = default;
  ConstBuffer(const std::byte* first, std::size_t length, Place where = {}) noexcept
      : data(first), bytes(length), place(where) {}
  ConstBuffer(const Buffer& b) noexcept : data(b.data), bytes(b.bytes), place(b.place) {}
  ConstBuffer part(std::size_t offset, std::size_t length) const noexcept { return {data + offset, length, place}; }
};

/// Memory and its owner. The end of the last copy frees the memory and withdraws the memory's registration, if any.
struct Region {
  Buffer memory;
  std::shared_ptr<const void> hold;  ///< the owner; null: somebody else owns the memory
};

}  // namespace sinew
