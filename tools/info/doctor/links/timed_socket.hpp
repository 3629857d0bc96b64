#pragma once

#include <cstddef>
#include <span>

#include <sinew/core/deadline.hpp>
#include <sinew/core/net/auth.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew::doctor {

/// A connected, non-blocking socket. Each step ends by its deadline.
/// Errors: Error{Timeout}; Error{PeerLost} where the other side has closed the connection; Error{Mismatch} where the
///         other side does not authenticate; Error{Cancelled} once `stop` can be read; Error{System}.
class TimedSocket {
 public:
  explicit TimedSocket(FileDescriptor socket, int stop = -1) noexcept : socket_(std::move(socket)), stop_(stop) {}

  void send(std::span<const std::byte> bytes, Deadline deadline);
  void receive(std::span<std::byte> bytes, Deadline deadline);
  /// Both sides authenticate with the job's secret.
  void prove(Authentication proof, Deadline deadline);

 private:
  void wait(short events, Deadline deadline) const;

  FileDescriptor socket_;
  int stop_;
};

}  // namespace sinew::doctor
