#pragma once

#include <cstdint>
#include <functional>
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

/// Since when a handshake waits for the next step of the other side. There are only a few steps, whatever it sends.
class ProofClock {
 public:
  Clock::time_point since() const noexcept { return since_; }
  /// Looks at the handshake; true: the other side has made a step, and since() is now.
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

/// Moves a handshake on as far as the socket takes and has bytes. Under TLS both proofs cover the connection's keys, so
/// that nobody who has a certificate of the authority, and not the secret, can sit between the two ends.
/// `may_prove`: asked before the proof of the connecting side is sent; a false answer ends the handshake as Refused.
SINEW_API Proof pump(Socket& socket, Authentication& handshake, const std::function<bool()>& may_prove = {});

}  // namespace sinew
