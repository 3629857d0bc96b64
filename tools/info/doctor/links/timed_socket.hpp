#pragma once

#include <cstddef>
#include <span>

#include <sinew/core/deadline.hpp>
#include <sinew/core/net/socket.hpp>

namespace sinew::doctor {

/// A connected, non-blocking socket. Each step ends by its deadline.
/// Errors: Error{Timeout}; Error{PeerLost} where the other side has closed the connection; Error{Cancelled} once `stop`
///         can be read; Error{System}.
class TimedSocket {
 public:
  explicit TimedSocket(Socket socket, int stop = -1) noexcept : socket_(std::move(socket)), stop_(stop) {}

  void send(std::span<const std::byte> bytes, Deadline deadline);
  void receive(std::span<std::byte> bytes, Deadline deadline);

 private:
  void wait(short events, Deadline deadline) const;

  Socket socket_;
  int stop_;
};

}  // namespace sinew::doctor
