#pragma once

#include <cstdint>

#include <sinew/core/auth.hpp>
#include <sinew/core/export.hpp>
#include <sinew/core/socket.hpp>

namespace sinew {

enum class Proof : std::uint8_t {
  Underway,  ///< go on when the socket can be read, or written where it wants_write()
  Proven,
  Refused,  ///< handshake.reason(): by this side, or under TLS by either
  Closed,   ///< by the other side (errno 0), or by the network
};

/// How far the other side has come: a number that grows a few times, whatever it says. Who waits for it may wait anew.
inline int steps_of(const Socket& socket, const Authentication& handshake) noexcept {
  return handshake.steps() + (socket.is_open() ? 1 : 0);
}

/// Moves a handshake on as far as its socket goes; under TLS both proofs cover the connection's keys, so that nobody
/// who has a certificate of the authority, and not the secret, can sit between the two ends.
SINEW_API Proof pump(Socket& socket, Authentication& handshake);

}  // namespace sinew
