#pragma once

#include <cstdint>

namespace sinew {

/// Which message this is. Tags match exactly.
/// Layout, from the top: generation 8, communicator 16, then for collectives (even ids) sequence 16, match 12,
/// segment 12; for send/recv (odd ids) 8 zero bits and the user's 32-bit tag.
struct Tag {
  std::uint64_t bits = 0;

  static constexpr Tag collective(std::uint8_t generation, std::uint16_t communicator, std::uint16_t sequence,
                                  std::uint32_t match, std::uint32_t segment) noexcept {
    return {static_cast<std::uint64_t>(generation) << 56 | static_cast<std::uint64_t>(communicator) << 40 |
            static_cast<std::uint64_t>(sequence) << 24 | static_cast<std::uint64_t>(match & 0xfff) << 12 |
            (segment & 0xfff)};
  }
  static constexpr Tag user(std::uint8_t generation, std::uint16_t communicator, std::uint32_t tag) noexcept {
    return {static_cast<std::uint64_t>(generation) << 56 | static_cast<std::uint64_t>(communicator) << 40 | tag};
  }
  constexpr std::uint8_t generation() const noexcept { return static_cast<std::uint8_t>(bits >> 56); }
  constexpr std::uint16_t communicator() const noexcept { return static_cast<std::uint16_t>(bits >> 40); }
  /// Of a send or recv, not of a collective's step.
  constexpr bool is_user() const noexcept { return (communicator() & 1) != 0; }
  constexpr std::uint16_t sequence() const noexcept { return static_cast<std::uint16_t>(bits >> 24); }
  /// Same communicator and same call, whatever step of it: two such messages with different notes are a mismatch.
  constexpr bool same_call(Tag other) const noexcept { return (bits >> 24) == (other.bits >> 24) && !is_user(); }
  friend constexpr bool operator==(Tag, Tag) = default;
};

}  // namespace sinew
