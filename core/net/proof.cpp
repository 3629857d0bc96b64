#include <sys/socket.h>

#include <array>
#include <cerrno>

#include <sinew/core/net/proof.hpp>

namespace sinew {
namespace {

/// What the kernel, or TLS, ended the conversation with.
Proof ended(const Socket& socket, Authentication& handshake) {
  if (errno != EPROTO) return Proof::Closed;
  handshake.refuse(socket.trouble());
  return Proof::Refused;
}

/// A socket closed with unread bytes takes back what was written last.
void read_off(Socket& socket) {
  std::array<std::byte, 2048> nothing_for_us;
  static_cast<void>(socket.receive(nothing_for_us));
}

}  // namespace

Proof pump(Socket& socket, Authentication& handshake, const std::function<bool()>& may_prove) {
  for (;;) {
    const bool refused = handshake.state() == Authentication::State::Refused;
    if (refused && !handshake.to_send().empty()) read_off(socket);
    while (!handshake.to_send().empty()) {
      const ssize_t n = socket.send(handshake.to_send());
      if (n < 0 && is_for_later(errno)) return refused ? Proof::Refused : Proof::Underway;
      if (n < 0) return refused ? Proof::Refused : ended(socket, handshake);
      handshake.sent(static_cast<std::size_t>(n));
    }
    if (refused) return Proof::Refused;
    if (handshake.state() == Authentication::State::Proven) {
      socket.trust();
      return Proof::Proven;
    }
    const ssize_t n = socket.receive(handshake.room());
    if (n < 0 && is_for_later(errno)) return Proof::Underway;
    if (n == 0) errno = 0;
    if (n <= 0) return n == 0 ? Proof::Closed : ended(socket, handshake);
    if (const auto binding = socket.binding()) handshake.bind(*binding);
    handshake.received(static_cast<std::size_t>(n));
    const bool proves = handshake.state() == Authentication::State::Proven && !handshake.to_send().empty();
    if (proves && may_prove && !may_prove()) {
      handshake.refuse("this side does not want the connection any more");
      return Proof::Refused;
    }
  }
}

}  // namespace sinew
