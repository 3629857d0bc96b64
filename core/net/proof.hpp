#pragma once

#include <cstdint>
#include <utility>

#include <sinew/core/base/export.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/net/auth.hpp>
#include <sinew/core/net/socket.hpp>

namespace sinew {

enum class Proof : std::uint8_t {
  Underway,  ///< go on when the socket can be read, or written where it wants_write()
  Proven,
  Refused,  ///< handshake.reason(): by this side, or under TLS by either
  Closed,   ///< by the other side (errno 0), or by the network
};

/// Since when the other side of a handshake has come no further; it can come further a few times, whatever it says.
class ProofClock {
 public:
  Clock::time_point since() const noexcept { return since_; }
  /// Looks; true: it has come further, and may be waited for anew.
  bool look(const Socket& socket, const Authentication& handshake) noexcept {
    const int steps = handshake.steps() + (socket.is_open() ? 1 : 0);
    if (std::exchange(steps_, steps) == steps) return false;
    since_ = Clock::now();
    return true;
  }

 private:
  Clock::time_point since_ = Clock::now();
  int steps_ = 0;
};

/// Moves a handshake on as far as its socket goes; under TLS both proofs cover the connection's keys, so that nobody
/// who has a certificate of the authority, and not the secret, can sit between the two ends.
SINEW_API Proof pump(Socket& socket, Authentication& handshake);

}  // namespace sinew
