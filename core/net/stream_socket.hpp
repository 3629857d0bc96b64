#pragma once

#include <cstddef>
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
  SocketAddress address;  ///< with the number of the port
};

/// Listens at an address. The socket is non-blocking and closed on exec.
/// Errors: Error{System} with the address and the kernel's text, such as "Address already in use".
SINEW_API Listener listen_on(const SocketAddress& address);
/// Listens on every interface, by IPv4 and by IPv6 if the host has IPv6. `port` 0 means the first free port of `range`.
/// Without a range, the kernel then chooses the port.
SINEW_API Listener listen_everywhere(std::uint16_t port, std::optional<std::pair<std::uint16_t, std::uint16_t>> range);

/// A path to a listening socket.
struct Path {
  SocketAddress to;
  std::optional<SocketAddress> from = {};  ///< an address of this machine, whatever its port; nullopt: routing chooses
  int segment_bytes = 0;                   ///< the longest TCP segment in both directions; 0: as the route allows
};

/// Begins to connect a non-blocking socket. The attempt has ended when the socket is writable: see connect_result().
/// Returns an errno if the attempt cannot begin.
SINEW_API std::pair<FileDescriptor, int> start_connect(const Path& path);
/// Returns 0, or the errno with which an attempt to connect has failed. TCP may connect a socket to itself if nobody
/// listens on a port of this host's ephemeral range. Such a connection counts as refused.
SINEW_API int connect_result(int socket);
/// Returns a connected non-blocking socket, or the errno of the failure. The errno is ETIMEDOUT if the deadline passes.
SINEW_API std::pair<FileDescriptor, int> try_connect(const Path& path, Deadline deadline);

/// The addresses of a socket's own end and of its other end. An address is empty if the socket has none. An IPv4
/// address of a socket for both IPv4 and IPv6 is returned as IPv4.
SINEW_API SocketAddress own_address(int socket) noexcept;
SINEW_API SocketAddress peer_address(int socket) noexcept;

/// Lets TCP send short messages at once (TCP_NODELAY).
SINEW_API void no_delay(int socket) noexcept;
/// The kernel reports the socket as readable only when `bytes` bytes have come or the connection has ended
/// (SO_RCVLOWAT). 1: the usual behaviour.
SINEW_API void wake_when_received(int socket, std::size_t bytes) noexcept;
/// Turns TCP keep-alive on or off. While the connection is idle, the kernel then asks every second whether the peer's
/// host answers, and ends the connection after five seconds without an answer.
SINEW_API void keep_alive(int socket, bool on) noexcept;
/// Turns TCP_USER_TIMEOUT on or off. The kernel then ends the connection if the peer's kernel has not acknowledged sent
/// bytes for five seconds.
SINEW_API void end_if_unanswered(int socket, bool on) noexcept;

}  // namespace sinew
