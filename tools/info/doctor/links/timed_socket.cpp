#include "timed_socket.hpp"

#include <poll.h>

#include <array>
#include <cerrno>

#include <sinew/core/error.hpp>

namespace sinew::doctor {
namespace {

constexpr int kLookAgainMs = 1000;

}  // namespace

void TimedSocket::wait(short events, Deadline deadline) const {
  std::array<pollfd, 2> entries{pollfd{socket_.get(), events, 0}, pollfd{stop_, POLLIN, 0}};
  for (;;) {
    const int ready = ::poll(entries.data(), entries.size(), deadline.left_ms(kLookAgainMs));
    if (ready < 0 && errno != EINTR) throw_errno("poll");
    if (ready > 0 && entries[1].revents != 0) throw Error(Code::Cancelled, "stopped");
    if (ready > 0) return;
    if (deadline.passed()) throw Error(Code::Timeout, "no answer in time");
  }
}

void TimedSocket::send(std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t n = socket_.send(bytes);
    if (n >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    } else if (is_for_later(errno)) {
      wait(POLLOUT, deadline);
    } else {
      throw_errno("sending");
    }
  }
}

void TimedSocket::receive(std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t n = socket_.receive(bytes);
    if (n == 0) throw Error(Code::PeerLost, "the other side has closed the connection");
    if (n > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    } else if (is_for_later(errno)) {
      wait(POLLIN, deadline);
    } else {
      throw_errno("receiving");
    }
  }
}

}  // namespace sinew::doctor
