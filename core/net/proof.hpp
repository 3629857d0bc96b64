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

/// Tells since when a handshake has waited for the next step of the other side. A handshake has only a few steps. So
/// the other side cannot hold it open for long by sending bytes.
class ProofClock {
 public:
  Clock::time_point since() const noexcept { return since_; }
  /// Returns true if the other side has made a step since the last call. since() is then the current time.
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

/// Moves a handshake on until the socket has no more bytes to read or takes no more. Under TLS both proofs include the
/// connection's keys. This stops a man in the middle who has a certificate of the authority, but not the secret.
/// `may_prove`: called before the proof of the connecting side is sent. If it returns false, the handshake is Refused.
SINEW_API Proof pump(Socket& socket, Authentication& handshake, const std::function<bool()>& may_prove = {});

}  // namespace sinew
