#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include <sinew/collectives/control/doorbell.hpp>
#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

static_assert(Doorbell::kLongestName + 1 == sizeof(sockaddr_un::sun_path));

struct Name {
  sockaddr_un address{};
  socklen_t length;

  explicit Name(const std::string& name) {
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&address); }
};

bool same_user(const msghdr& message) noexcept {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(const_cast<msghdr*>(&message), c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS) continue;
    ucred credentials;
    std::memcpy(&credentials, CMSG_DATA(c), sizeof credentials);
    return credentials.uid == ::geteuid() || credentials.uid == ::getuid();
  }
  return false;
}

}  // namespace

Doorbell::Doorbell()
    : name_(fmt::format("sinew-control-{:016x}{:016x}", random_id(), random_id())),
      socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  const int on = 1;
  const Name mine(name_);
  if (!socket_ || ::setsockopt(socket_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
      ::bind(socket_.get(), mine.get(), mine.length) != 0) {
    throw_errno("a socket for control messages on this host");
  }
}

bool Doorbell::ring(const std::string& name, std::span<const std::byte> message) const noexcept {
  const Name to(name);
  return ::sendto(socket_.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT, to.get(), to.length) >= 0;
}

bool Doorbell::next(Bytes& message) const {
  for (;;) {
    message.resize(kLongestMessage);
    iovec part{message.data(), message.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const ssize_t count = ::recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    if (!same_user(header)) continue;
    message.resize(static_cast<std::size_t>(count));
    return true;
  }
}

}  // namespace sinew
