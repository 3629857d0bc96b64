#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/net/stream_socket.hpp>

namespace sinew {
namespace {

constexpr int kKeepAliveSeconds = 1;
constexpr int kKeepAliveProbes = 4;
constexpr int kUnansweredMs = 5000;

void set_option(int fd, int level, int option, int value) noexcept {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

SocketAddress bound_address(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) throw_errno("reading a socket's address");
  return SocketAddress::from(reinterpret_cast<const sockaddr*>(&storage), length);
}

template <class Name>
SocketAddress address_of(int socket, Name name) noexcept {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (name(socket, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
  if (storage.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = v6.sin6_port;
    std::memcpy(&v4.sin_addr, v6.sin6_addr.s6_addr + 12, sizeof v4.sin_addr);
    return SocketAddress::from(reinterpret_cast<const sockaddr*>(&v4), sizeof v4);
  }
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

std::pair<FileDescriptor, int> start_connect(const Path& path) {
  FileDescriptor socket(::socket(path.to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return {FileDescriptor(), errno};
  if (!path.to.is_unix()) no_delay(socket.get());
  if (path.segment_bytes > 0) set_option(socket.get(), IPPROTO_TCP, TCP_MAXSEG, path.segment_bytes);
  if (path.from) {
    set_option(socket.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    const SocketAddress from = path.from->with_port(0);
    if (::bind(socket.get(), from.data(), from.length()) != 0) return {FileDescriptor(), errno};
  }
  if (::connect(socket.get(), path.to.data(), path.to.length()) != 0 && errno != EINPROGRESS) {
    return {FileDescriptor(), errno};
  }
  return {std::move(socket), 0};
}

std::pair<FileDescriptor, int> try_connect(const Path& path, Deadline deadline) {
  auto [socket, error] = start_connect(path);
  if (error != 0) return {FileDescriptor(), error};
  pollfd wait{socket.get(), POLLOUT, 0};
  int ready = 0;
  do {
    ready = ::poll(&wait, 1, deadline.left_ms(1000));
  } while ((ready < 0 && errno == EINTR) || (ready == 0 && !deadline.passed()));
  if (ready <= 0) return {FileDescriptor(), ready == 0 ? ETIMEDOUT : errno};
  if (const int refused = connect_result(socket.get()); refused != 0) return {FileDescriptor(), refused};
  return {std::move(socket), 0};
}

SocketAddress own_address(int socket) noexcept { return address_of(socket, ::getsockname); }
SocketAddress peer_address(int socket) noexcept { return address_of(socket, ::getpeername); }

void no_delay(int socket) noexcept { set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1); }

void wake_when_received(int socket, std::size_t bytes) noexcept {
  set_option(socket, SOL_SOCKET, SO_RCVLOWAT, static_cast<int>(bytes));
}

void keep_alive(int socket, bool on) noexcept {
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, on ? 1 : 0);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveSeconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveSeconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveProbes);
}

void end_if_unanswered(int socket, bool on) noexcept {
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, on ? kUnansweredMs : 0);
}

}  // namespace sinew
