#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include <sinew/core/transport.hpp>
#include <sinew/transports/shm/messages/ring.hpp>

namespace sinew::shm {

/// The words that one rank writes for one peer, in its own shared segment. The ring to the peer lies behind the box.
struct Box {
  LoneWord consumed;  ///< lines of the peer's ring that are free again
  LoneWord returned;  ///< eager credit that is the peer's again, in all
  LoneWord claimed;   ///< the peer's message that this rank is reading in place; 0: none
  LoneWord ended;     ///< 1 + the position at which the ring to the peer ends for good; 0: open
};

/// One word per message that a peer may read in place: whom it is for (a rank of 24 bits), its id there and how it
/// stands. A ticket goes from message to message, and ids of two peers may be equal. Before it reads, a receiver writes
/// `claimed`, fences and looks here; before it takes a message back, the sender writes Trying here, fences and looks
/// at `claimed`: one of them sees the other.
enum class Standing : std::uint8_t { Offered, Trying, Withdrawn };

inline constexpr std::size_t kTickets = 4096;  // not a page
inline constexpr std::uint32_t kNoTicket = kTickets;

constexpr std::uint64_t ticket_word(int reader, std::uint32_t id, Standing s) noexcept {
  return static_cast<std::uint64_t>(reader) << 40 | std::uint64_t{id} << 8 | static_cast<std::uint8_t>(s);
}

/// What a receiver writes into `claimed` for the message of that id; never 0.
constexpr std::uint64_t claim_word(std::uint32_t id) noexcept { return std::uint64_t{id} << 8 | 0xff; }

/// Start of a rank's port; its boxes follow, one per rank of the host, in that order, each with its ring.
struct Port {
  std::uint64_t proof;     ///< random, and written into ordinary memory, too:
  std::uint64_t proof_at;  ///< whoever finds it here by the process id reads the right process
  alignas(kFalseSharing) std::array<Word, kTickets> tickets;

  /// For the rank at `index` of `ranks`.
  Box& box(std::size_t index, std::size_t ranks) noexcept {
    return *reinterpret_cast<Box*>(reinterpret_cast<std::byte*>(this + 1) + index * stride(ranks));
  }
  const Box& box(std::size_t index, std::size_t ranks) const noexcept {
    return const_cast<Port*>(this)->box(index, ranks);
  }
  static std::span<Frame> ring_of(Box& box, std::size_t ranks) noexcept {
    return {reinterpret_cast<Frame*>(&box + 1), ring_lines(ranks)};
  }
  static std::span<const Frame> ring_of(const Box& box, std::size_t ranks) noexcept {
    return {reinterpret_cast<const Frame*>(&box + 1), ring_lines(ranks)};
  }
  static std::size_t bytes_for(std::size_t ranks) noexcept { return sizeof(Port) + ranks * stride(ranks); }

 private:
  static std::size_t stride(std::size_t ranks) noexcept { return sizeof(Box) + ring_lines(ranks) * sizeof(Frame); }
};
static_assert(sizeof(Port) % kFalseSharing == 0 && sizeof(Box) % kFalseSharing == 0);

/// An address as it travels.
struct PortAddress {
  std::uint64_t magic = kMagic;
  std::uint64_t salt = 0;
  std::uint64_t offset = 0;  ///< of the Port in the rank's shared segment
  std::int64_t rank = -1;    ///< in the world

  static constexpr std::uint64_t kMagic = 0x73696e65772f7368;
  Address encode() const {
    const auto bytes = std::as_bytes(std::span(this, 1));
    return {bytes.begin(), bytes.end()};
  }
  /// rank -1: not an address of this transport.
  static PortAddress decode(const Address& bytes) noexcept {
    PortAddress a;
    if (bytes.size() == sizeof a) std::memcpy(&a, bytes.data(), sizeof a);
    return a.magic == kMagic ? a : PortAddress{};
  }
};

}  // namespace sinew::shm
