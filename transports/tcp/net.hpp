#pragma once

#include <cstddef>
#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/core/net/socket.hpp>
#include <sinew/transports/tcp/addresses/rail_path.hpp>

namespace sinew::tcp {

/// What the accepting side says after the proofs, one byte.
enum class Consent : std::uint8_t {
  Accepted = 'A',  ///< this connection is the pair's
  UseMine = 'M',   ///< ours is on its way
  Closed = 'C',    ///< this side has closed its endpoint
};
void say(Socket& socket, Consent consent) noexcept;

/// The claim's service for this protocol.
inline constexpr std::uint32_t kService = 0x32706374;  // "tcp2"

/// The connections of a pair: control, then one for the data of each rail.
using Channel = std::uint8_t;
inline constexpr Channel kControl = 0;
inline constexpr std::size_t kMostChannels = 1 + kMostRails;

/// Which connection a claim is for.
struct ChannelClaim {
  Channel channel = kControl;
  std::uint32_t epoch = 0;  ///< how many times this channel has lost a connection, as who connects knows

  std::uint32_t encode() const noexcept { return epoch << 8 | channel; }
  static ChannelClaim decode(std::uint32_t c) noexcept { return {static_cast<Channel>(c & 0xff), c >> 8}; }
};

/// Takes no more than it can send soon: what waits goes by the rail that is first.
void queue_little(int socket) noexcept;
/// Was it the peer's end that ended a connection, and not the network? error 0: it closed.
bool is_by_peer(int error) noexcept;
/// Has the peer's kernel left what was sent unanswered for seconds? One that answers and takes nothing is not silent.
bool is_silent(int socket) noexcept;
/// Has something been sent that the peer's kernel has not confirmed?
bool is_outstanding(int socket) noexcept;

}  // namespace sinew::tcp
