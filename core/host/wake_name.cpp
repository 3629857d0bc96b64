#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <tuple>

#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/host/wake_name.hpp>

namespace sinew {
namespace {

std::tuple<sockaddr_un, socklen_t> address_of(std::int32_t number) noexcept {
  constexpr char kPrefix[] = "sinew-wake-";
  constexpr std::size_t kPrefixBytes = sizeof kPrefix - 1;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, kPrefix, kPrefixBytes);  // a leading zero byte: no file
  std::memcpy(address.sun_path + 1 + kPrefixBytes, &number, sizeof number);
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + kPrefixBytes + sizeof number)};
}

FileDescriptor datagram_socket() {
  FileDescriptor s(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!s) throw_errno("socket(AF_UNIX) for waking the ranks of this host");
  return s;
}

/// It has no name and no peer, so a forked child may use it as well.
int sender() {
  static const FileDescriptor socket = FileDescriptor::kept_by_children(datagram_socket().release());
  return socket.get();
}

}  // namespace

WakeName::WakeName() : socket_(datagram_socket()) {
  for (;;) {
    number_ = static_cast<std::int32_t>(random_id() & 0x7fffffff) | 2;
    const auto [address, length] = address_of(number_);
    if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0) return;
    if (errno != EADDRINUSE) throw_errno("a name for waking this rank");
  }
}

void WakeName::prepare() { sender(); }

int WakeName::wake(std::int32_t number) noexcept {
  const auto [address, length] = address_of(number);
  const auto send_by = [&](int socket) {
    const std::uint64_t one = 1;
    const auto* to = reinterpret_cast<const sockaddr*>(&address);
    return ::sendto(socket, &one, sizeof one, MSG_NOSIGNAL, to, length) < 0 ? errno : 0;
  };
  if (const int error = send_by(sender()); error != EAGAIN) return error;
  // Either that rank has as many datagrams as it may have, or this socket has: other ranks have not taken theirs yet.
  const FileDescriptor another(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return another ? send_by(another.get()) : errno;
}

int WakeName::find(std::int32_t number) noexcept {
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto [address, length] = address_of(number);
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) < 0 ? errno : 0;
}

}  // namespace sinew
