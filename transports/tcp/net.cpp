#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>
#include <span>

#include <sinew/transports/tcp/net.hpp>

namespace sinew::tcp {
namespace {

constexpr int kKeepAliveSeconds = 1;
constexpr int kKeepAliveProbes = 4;
constexpr int kUnansweredMs = 5000;
constexpr int kUnsentBytes = 256 * 1024;
constexpr unsigned kUnanswered = 3;  // attempts, each twice as long as the last
constexpr unsigned kSilentMs = 3000;

void set(int socket, int level, int option, int value) noexcept {
  ::setsockopt(socket, level, option, &value, sizeof value);
}

void set_no_delay(int socket) noexcept { set(socket, IPPROTO_TCP, TCP_NODELAY, 1); }

template <class Name>
SocketAddress name_of(int socket, Name name) noexcept {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (name(socket, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
  if (storage.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {  // IPv4 on a socket for both
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = v6.sin6_port;
    std::memcpy(&v4.sin_addr, v6.sin6_addr.s6_addr + 12, sizeof v4.sin_addr);
    return SocketAddress::from(reinterpret_cast<const sockaddr*>(&v4), sizeof v4);
  }
  return SocketAddress::from(reinterpret_cast<const sockaddr*>(&storage), length);
}

}  // namespace

std::pair<FileDescriptor, int> start_connect(const Path& path) {
  FileDescriptor socket(::socket(path.to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return {FileDescriptor(), errno};
  set_no_delay(socket.get());
  if (path.from) {
    set(socket.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    const SocketAddress from = path.from->with_port(0);
    if (::bind(socket.get(), from.data(), from.length()) != 0) return {FileDescriptor(), errno};
  }
  if (::connect(socket.get(), path.to.data(), path.to.length()) != 0 && errno != EINPROGRESS) {
    return {FileDescriptor(), errno};
  }
  return {std::move(socket), 0};
}

std::pair<FileDescriptor, int> accept_next(int listener) noexcept {
  FileDescriptor socket(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) return {FileDescriptor(), errno};
  set_no_delay(socket.get());
  return {std::move(socket), 0};
}

void say(Socket& socket, Consent consent) noexcept {
  // One byte always fits the empty buffer of a new connection; a peer that has gone needs no answer.
  static_cast<void>(socket.send(std::as_bytes(std::span(&consent, 1))));
}

std::string peer_text(int socket) { return name_of(socket, ::getpeername).text(); }
std::string own_text(int socket) { return name_of(socket, ::getsockname).text(); }

void keep_alive(int socket, bool looks) noexcept {
  set(socket, SOL_SOCKET, SO_KEEPALIVE, looks ? 1 : 0);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveSeconds);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveSeconds);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveProbes);
}

void insist_on_answers(int socket, bool insists) noexcept {
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, insists ? kUnansweredMs : 0);
}

void queue_little(int socket) noexcept { set(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kUnsentBytes); }

bool is_by_peer(int error) noexcept { return error == 0 || error == ECONNRESET || error == EPIPE || error == EPROTO; }

// Not TCP_USER_TIMEOUT: it ends connections to a rank that computes for long and so takes nothing, too.
bool is_silent(int socket) noexcept {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return false;
  const bool unanswered = info.tcpi_retransmits >= kUnanswered || info.tcpi_probes >= kUnanswered;
  return unanswered && info.tcpi_last_ack_recv >= kSilentMs;
}

bool is_outstanding(int socket) noexcept {
  int bytes = 0;
  return ::ioctl(socket, SIOCOUTQ, &bytes) == 0 && bytes != 0;
}

}  // namespace sinew::tcp
