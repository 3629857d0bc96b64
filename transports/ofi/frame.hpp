#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace sinew::ofi {

static_assert(std::endian::native == std::endian::little, "frames are little-endian");

enum class FrameKind : std::uint32_t {
  Hello = 1,  ///< makes the provider connect
  Eager,      ///< tag, note, bytes of payload follow
  Request,    ///< tag, note, bytes; id: the sender's number
  Clear,      ///< id: the sender's number; note: the receiver's number for it; bytes: of a piece; tag: pieces posted
  Next,       ///< id: the receiver's number; bytes: pieces posted since the first
  Refuse,     ///< id: the sender's number; bytes: a Code; note: what was expected
  Withdraw,   ///< id: the sender's number
  Credit,     ///< bytes: charge returned
  Bye,        ///< nothing more comes
};

/// What every frame begins with. Unused fields are 0. With 8 bytes of payload it is within the 64 that providers over
/// TCP send without a buffer of their own.
struct FrameHeader {
  std::uint64_t key = 0;       ///< session_key of the pair
  std::int32_t rank = -1;      ///< of the sender
  std::uint32_t sequence = 0;  ///< in the order of the sends: providers may complete a long frame after a short one
  FrameKind kind{};
  std::uint32_t id = 0;
  std::uint64_t tag = 0;
  std::uint64_t note = 0;
  std::uint64_t bytes = 0;
};
static_assert(sizeof(FrameHeader) == 48);

/// The native tag of a piece: its number within the message above the number that its receiver gave the message.
constexpr std::uint64_t piece_tag(std::uint32_t receiver, std::uint64_t piece) noexcept {
  return (piece & 0xffff) << 32 | receiver;
}
/// Bits that a provider must match for it.
inline constexpr unsigned kTagBits = 48;

}  // namespace sinew::ofi
