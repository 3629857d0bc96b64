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
  Clear,      ///< id: the sender's number; note: the receiver's number for it
  Refuse,     ///< id: the sender's number; bytes: a Code; note: what was expected
  Withdraw,   ///< id: the sender's number
  Credit,     ///< bytes: charge returned
  // On the data connection.
  Data,   ///< id: the receiver's number; bytes of payload follow
  Abort,  ///< id: the receiver's number: the rest of the message will not come
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
inline constexpr std::size_t kDataFrameBytes = 256 * 1024;

}  // namespace sinew::tcp
