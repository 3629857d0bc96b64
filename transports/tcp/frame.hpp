#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace sinew::tcp {

static_assert(std::endian::native == std::endian::little, "frames are little-endian");

enum class FrameKind : std::uint32_t {
  // On the control connection.
  Eager = 1,  ///< tag, note, bytes of payload follow
  Request,    ///< tag, note, bytes; id: the sender's number
  Clear,      ///< id: the sender's number; note: the receiver's number for it; bytes: frames are multiples of this
  Refuse,     ///< id: the sender's number; bytes: a Code; note: what was expected
  Withdraw,   ///< id: the sender's number
  Credit,     ///< bytes: charge returned
  Abort,      ///< id: the receiver's number; bytes: so many of the message will not come
  // On the control connection of a pair with several rails.
  Arrived,   ///< id: the sender's number, note: the receiver's: the message is here
  RailLost,  ///< id: a channel; note: data frames that came over it in full; bytes: and of one more
  Heard,     ///< note: bytes of this stream that have come
  Resume,    ///< first on every connection, no part of the stream; note: bytes of it that have come
  // On a data connection.
  Data,  ///< id: the receiver's number; note: where in the message; bytes of payload follow
};

/// What precedes every payload. Unused fields are 0.
struct FrameHeader {
  FrameKind kind{};
  std::uint32_t id = 0;
  std::uint64_t tag = 0;
  std::uint64_t note = 0;
  std::uint64_t bytes = 0;
};
static_assert(sizeof(FrameHeader) == 32);

/// Messages of one pair take turns after this much.
inline constexpr std::size_t kDataFrameBytes = 1024 * 1024;
/// Where there are several rails, each takes the next frame when it can: not above this, and the last frames of a
/// message are shorter, but not below kLeastFrameBytes.
inline constexpr std::size_t kRailFrameBytes = 256 * 1024;
inline constexpr std::size_t kLeastFrameBytes = 64 * 1024;

}  // namespace sinew::tcp
