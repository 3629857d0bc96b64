#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/net/socket_address.hpp>

namespace sinew {
namespace {

void set_option(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); }

SocketAddress bound_address(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) throw_errno("reading a socket's address");
  return SocketAddress::from(reinterpret_cast<const sockaddr*>(&storage), length);
}

/// The listening socket, or the errno of what refused it.
std::pair<FileDescriptor, int> try_listen(const SocketAddress& address) {
  FileDescriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return {FileDescriptor(), errno};
  if (!address.is_unix()) set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(socket.get(), address.data(), address.length()) != 0) return {FileDescriptor(), errno};
  if (::listen(socket.get(), SOMAXCONN) != 0) return {FileDescriptor(), errno};
  return {std::move(socket), 0};
}

/// IPv6 takes IPv4 as well; machines without IPv6 get IPv4 alone.
SocketAddress everywhere(int family, std::uint16_t port) {
  if (family == AF_INET6) {
    sockaddr_in6 a{};
    a.sin6_family = AF_INET6;
    a.sin6_addr = in6addr_any;
    a.sin6_port = htons(port);
    return SocketAddress::from(reinterpret_cast<const sockaddr*>(&a), sizeof a);
  }
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  return SocketAddress::from(reinterpret_cast<const sockaddr*>(&a), sizeof a);
}

}  // namespace

Listener listen_on(const SocketAddress& address) {
  auto [socket, error] = try_listen(address);
  if (error != 0) throw_errno(fmt::format("listening on {}", address.text()), error);
  const SocketAddress bound = bound_address(socket.get());
  return {std::move(socket), bound};
}

Listener listen_everywhere(std::uint16_t port, std::optional<std::pair<std::uint16_t, std::uint16_t>> range) {
  const unsigned first = port != 0 || !range ? port : range->first;
  const unsigned last = port != 0 || !range ? port : range->second;
  int error = 0;
  for (unsigned p = first; p <= last; ++p) {
    for (const int family : {AF_INET6, AF_INET}) {
      auto [socket, reason] = try_listen(everywhere(family, static_cast<std::uint16_t>(p)));
      if (reason == 0) {
        const SocketAddress bound = bound_address(socket.get());
        return {std::move(socket), bound};
      }
      error = reason;
      if (reason == EADDRINUSE) break;
    }
  }
  throw_errno(port == 0 && range ? fmt::format("listening on any port of SINEW_PORTS={}-{}", first, last)
                                 : fmt::format("listening on port {}", first),
              error);
}

int connect_result(int socket) {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  if (error != 0) return error;
  sockaddr_storage own{};
  sockaddr_storage other{};
  socklen_t own_length = sizeof own;
  socklen_t other_length = sizeof other;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_length);
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&other), &other_length) != 0) return errno;
  if (own.ss_family == AF_UNIX) return 0;
  return own_length == other_length && std::memcmp(&own, &other, own_length) == 0 ? ECONNREFUSED : 0;
}

std::pair<FileDescriptor, int> try_connect(const SocketAddress& address, Deadline deadline,
                                           const ConnectOptions& options) {
  FileDescriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return {FileDescriptor(), errno};
  if (options.segment_bytes > 0) set_option(socket.get(), IPPROTO_TCP, TCP_MAXSEG, options.segment_bytes);
  if (options.from) {
    const SocketAddress from = options.from->with_port(0);
    if (::bind(socket.get(), from.data(), from.length()) != 0) return {FileDescriptor(), errno};
  }
  if (::connect(socket.get(), address.data(), address.length()) != 0) {
    if (errno != EINPROGRESS) return {FileDescriptor(), errno};
    pollfd wait{socket.get(), POLLOUT, 0};
    int ready = 0;
    do {
      ready = ::poll(&wait, 1, deadline.left_ms(1000));
    } while ((ready < 0 && errno == EINTR) || (ready == 0 && !deadline.passed()));
    if (ready <= 0) return {FileDescriptor(), ready == 0 ? ETIMEDOUT : errno};
  }
  if (const int error = connect_result(socket.get()); error != 0) return {FileDescriptor(), error};
  if (address.is_unix()) return {std::move(socket), 0};
  set_option(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  return {std::move(socket), 0};
}

}  // namespace sinew
