#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include <sinew/core/base/export.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/net/socket_address.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew {

struct Listener {
  FileDescriptor socket;
  SocketAddress address;  ///< with the port that was taken
};

/// Listens; the socket does not block and is closed on exec. Errors: Error{System} naming the address, and with the
/// kernel's text, such as "Address already in use".
SINEW_API Listener listen_on(const SocketAddress& address);
/// Listens on every interface, IPv4 and IPv6 where there is one, on `port` or (0) on the first free port of `range`.
SINEW_API Listener listen_everywhere(std::uint16_t port, std::optional<std::pair<std::uint16_t, std::uint16_t>> range);

/// A way to a listening socket.
struct Path {
  SocketAddress to;
  std::optional<SocketAddress> from = {};  ///< an address of this machine, whatever its port; nullopt: routing chooses
  int segment_bytes = 0;                   ///< TCP sends no longer segments, either way; 0: what the route carries
};

/// Begins to connect with a socket that does not block: done when it can be written. The errno where it cannot begin.
SINEW_API std::pair<FileDescriptor, int> start_connect(const Path& path);
/// 0, or the errno that ended an attempt to connect; a socket that TCP has connected to itself, as it may where nobody
/// listens on a port of this machine's ephemeral range, counts as refused.
SINEW_API int connect_result(int socket);
/// A connected socket that does not block, or the errno of the failure; ETIMEDOUT when the deadline passes.
SINEW_API std::pair<FileDescriptor, int> try_connect(const Path& path, Deadline deadline);

/// The address of a socket's own end, and of its other end; an empty one where the socket has none. IPv4 on a socket
/// for both IPv4 and IPv6 is given as IPv4.
SINEW_API SocketAddress own_address(int socket) noexcept;
SINEW_API SocketAddress peer_address(int socket) noexcept;

/// TCP sends short messages at once.
SINEW_API void no_delay(int socket) noexcept;
/// The kernel looks every second whether the peer's host answers while nothing is on its way, and ends the connection
/// after five seconds without an answer; or no longer does.
SINEW_API void keep_alive(int socket, bool on) noexcept;
/// The kernel ends the connection when the peer's kernel has left what was sent unanswered for five seconds; or no
/// longer does.
SINEW_API void end_if_unanswered(int socket, bool on) noexcept;

}  // namespace sinew
