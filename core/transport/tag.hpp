#pragma once

#include <cstdint>

namespace sinew {

/// The purpose of a message with a user tag. Messages other than User belong to the transfer of a long message of
/// device memory. The number of that transfer stands in place of the user's tag.
enum class UserMessageKind : std::uint8_t { User, Details, Answer, Data };

/// The identity of a message, by which it finds its receive. The highest 8 bits are the generation and the next 16 the
/// communicator id. The other 40 bits depend on that id:
/// - An even id is for collectives: sequence number 16 bits, match 12 bits, segment 12 bits.
/// - An odd id is for send and recv: 8 bits for the UserMessageKind, then the user's tag of 32 bits.
struct Tag {
  std::uint64_t bits = 0;

  static constexpr Tag collective(std::uint8_t generation, std::uint16_t communicator, std::uint16_t sequence,
                                  std::uint32_t match, std::uint32_t segment) noexcept {
    return {static_cast<std::uint64_t>(generation) << 56 | static_cast<std::uint64_t>(communicator) << 40 |
            static_cast<std::uint64_t>(sequence) << 24 | static_cast<std::uint64_t>(match & 0xfff) << 12 |
            (segment & 0xfff)};
  }
  static constexpr Tag user(std::uint8_t generation, std::uint16_t communicator, std::uint32_t tag,
                            UserMessageKind kind = UserMessageKind::User) noexcept {
    return {static_cast<std::uint64_t>(generation) << 56 | static_cast<std::uint64_t>(communicator) << 40 |
            static_cast<std::uint64_t>(kind) << 32 | tag};
  }
  constexpr std::uint8_t generation() const noexcept { return static_cast<std::uint8_t>(bits >> 56); }
  constexpr std::uint16_t communicator() const noexcept { return static_cast<std::uint16_t>(bits >> 40); }
  /// True for a message of send or recv, false for a message of a collective.
  constexpr bool is_user() const noexcept { return (communicator() & 1) != 0; }
  /// True for a message between buffers of users, which may be device memory. The other messages of a transfer lie in
  /// memory of the host.
  constexpr bool is_between_users() const noexcept {
    return is_user() && static_cast<UserMessageKind>(bits >> 32 & 0xff) == UserMessageKind::User;
  }
  constexpr std::uint16_t sequence() const noexcept { return static_cast<std::uint16_t>(bits >> 24); }
  /// True if both messages belong to the same collective call. If their notes differ, the ranks made different calls.
  constexpr bool same_call(Tag other) const noexcept { return (bits >> 24) == (other.bits >> 24) && !is_user(); }
  friend constexpr bool operator==(Tag, Tag) = default;
};

}  // namespace sinew
