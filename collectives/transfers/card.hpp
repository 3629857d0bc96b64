#pragma once

#include <cstddef>
#include <cstdint>

#include <sinew/core/call/collective.hpp>
#include <sinew/core/transport/peer_memory.hpp>

namespace sinew {

/// Device messages of up to this many bytes are sent as one plain message. Longer ones are announced by a card.
inline constexpr std::size_t kWholeBytes = 256 << 10;
/// The longest piece of a long message that goes through pinned memory.
inline constexpr std::size_t kPieceBytes = 1 << 20;
/// The pieces of one message that are copied or sent at the same time.
inline constexpr std::size_t kPiecesInFlight = 4;

/// Returns the length of each piece but the last one. The pieces are about equal, so that none is so short that a
/// transport would send it eagerly.
/// Units: bytes, a multiple of 64. Precondition: bytes > 0.
constexpr std::uint64_t piece_bytes_of(std::uint64_t bytes) noexcept {
  const std::uint64_t pieces = (bytes - 1) / kPieceBytes + 1;
  const std::uint64_t even = (bytes - 1) / pieces + 1;
  return (even + 63) / 64 * 64;
}

/// The note of a card. A card is a message of 0 bytes on the user's tag. It announces a long message of device memory:
/// the transfer `number` among those of its sender to this receiver. The note is never that of the
/// communicator's other messages, so a receive that takes a card ends with Mismatch and this note.
class Card {
 public:
  static constexpr std::uint64_t note(std::uint64_t usual, std::uint32_t number) noexcept {
    return static_cast<std::uint64_t>(mark_of(usual)) << 32 | number;
  }
  /// True if the note is that of a card of the communicator whose other messages have the note `usual`.
  static constexpr bool is_note(std::uint64_t note, std::uint64_t usual) noexcept {
    return static_cast<std::uint32_t>(note >> 32) == mark_of(usual);
  }
  static constexpr std::uint32_t number_of(std::uint64_t note) noexcept { return static_cast<std::uint32_t>(note); }

 private:
  static constexpr std::uint32_t mark_of(std::uint64_t usual) noexcept {
    const auto mark = static_cast<std::uint32_t>(mix(usual, 0x63617264) >> 32);
    return mark == static_cast<std::uint32_t>(usual >> 32) ? ~mark : mark;
  }
};

/// The ways that a long message of device memory can go. Details::ways has bit 1 << way for each.
enum class TransferWay : std::uint8_t {
  Pieces,    ///< through pinned memory of the sender, and of the receiver if its buffer is device memory
  PeerCopy,  ///< the receiver copies from the sender's device memory
  Direct,    ///< over a transport that takes device memory on both sides, from buffer to buffer
};

constexpr const char* name_of(TransferWay way) noexcept {
  switch (way) {
    case TransferWay::Pieces: return "in pieces through pinned memory";
    case TransferWay::PeerCopy: return "copied from the sender's device";
    case TransferWay::Direct: return "over a transport that takes device memory";
  }
  return "";
}

/// The sender's description of the message that a card announces.
struct TransferDetails {
  std::uint64_t bytes = 0;
  std::uint64_t ways = 0;           ///< that the sender can go
  std::uint64_t address = 0;        ///< of the message, for a peer copy within the process
  std::uint64_t device = 0;         ///< the number of the sender's device, for a peer copy within the process
  PeerMemory::Exported exported{};  ///< for a peer copy between processes
  std::uint64_t transport = 0;      ///< of the way Direct: its place in Facts::transports

  bool offers(TransferWay way) const noexcept { return (ways >> static_cast<int>(way) & 1) != 0; }
  void offer(TransferWay way) noexcept { ways |= std::uint64_t{1} << static_cast<int>(way); }
};

/// The other messages of a transfer. Each is one word of 8 bytes.
/// The receiver answers to the details with TakesPieces, TakesPeerCopy, TakesDirect, Truncated or Failed. A receiver
/// that has copied from the sender's memory then says Copied or Failed. After an answer that takes a way, the sender
/// says Go, Withdrawn or Failed.
enum class TransferWord : std::uint64_t {
  TakesPieces = 1,
  TakesPeerCopy,
  TakesDirect,
  Truncated,  ///< the receiver's buffer is too short
  Failed,     ///< the writer of this word cannot go on
  Copied,
  Go,         ///< the message is ready: the sender's stream has come so far
  Withdrawn,  ///< the send was cancelled
};

/// Precondition: the word is an answer that takes a way.
constexpr TransferWay way_of(TransferWord answer) noexcept {
  if (answer == TransferWord::TakesPeerCopy) return TransferWay::PeerCopy;
  return answer == TransferWord::TakesDirect ? TransferWay::Direct : TransferWay::Pieces;
}
/// Returns the answer that takes a way.
constexpr TransferWord answer_of(TransferWay way) noexcept {
  if (way == TransferWay::PeerCopy) return TransferWord::TakesPeerCopy;
  return way == TransferWay::Direct ? TransferWord::TakesDirect : TransferWord::TakesPieces;
}

}  // namespace sinew
