#pragma once

#include <poll.h>

#include <stdexcept>

#include <sinew/core/deadline.hpp>
#include <sinew/core/net/proof.hpp>

namespace sinew::test {

/// Waits until both ends of a connection have been authenticated; throws if one refuses, closes or is late.
inline void authenticate(Socket& socket, Authentication handshake, Deadline deadline) {
  for (;;) {
    const Proof proof = pump(socket, handshake);
    if (proof == Proof::Proven) return;
    if (proof != Proof::Underway) throw std::runtime_error("not authenticated: " + handshake.reason());
    const short events = static_cast<short>(POLLIN | (socket.wants_write() ? POLLOUT : 0));
    pollfd wait{socket.get(), events, 0};
    if (::poll(&wait, 1, deadline.left_ms(1000)) == 0 && deadline.passed()) throw std::runtime_error("late");
  }
}

}  // namespace sinew::test
