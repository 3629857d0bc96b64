#include <sys/socket.h>

#include <utility>

#include <sinew/core/net/socket.hpp>
#include <sinew/core/net/tls_session.hpp>

namespace sinew {

Socket::Socket() noexcept = default;
Socket::Socket(Socket&&) noexcept = default;
Socket& Socket::operator=(Socket&&) noexcept = default;
Socket::~Socket() = default;

Socket::Socket(FileDescriptor descriptor, End end, const std::shared_ptr<const TlsContext>& tls)
    : descriptor_(std::move(descriptor)) {
  if (tls) tls_ = std::make_unique<TlsSession>(tls, descriptor_.get(), end == End::Connects);
}

ssize_t Socket::send(std::span<const iovec> pieces, int flags) noexcept {
  if (tls_) return tls_->send(pieces, flags);
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  return ::sendmsg(get(), &message, flags | MSG_NOSIGNAL);
}

ssize_t Socket::send(std::span<const std::byte> bytes) noexcept {
  if (!tls_) return ::send(get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  return tls_->send(std::span(&piece, 1), 0);
}

ssize_t Socket::receive(std::span<const iovec> room, From from) noexcept {
  if (tls_) return tls_->receive(room, from == From::Held);
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(room.data());
  message.msg_iovlen = room.size();
  return ::recvmsg(get(), &message, 0);
}

ssize_t Socket::receive(std::span<std::byte> room) noexcept {
  if (!tls_) return ::recv(get(), room.data(), room.size(), 0);
  const iovec piece{room.data(), room.size()};
  return tls_->receive(std::span(&piece, 1), false);
}

bool Socket::is_open() const noexcept { return !tls_ || tls_->is_open(); }

void Socket::trust() noexcept {
  if (tls_) tls_->trust();
}

void Socket::read_ahead() noexcept {
  if (tls_) tls_->read_ahead();
}

bool Socket::wants_write() const noexcept { return tls_ && tls_->wants_write(); }

void Socket::flush() noexcept {
  if (tls_) tls_->flush();
}

bool Socket::holds() const noexcept { return tls_ && tls_->holds(); }

bool Socket::finish() noexcept {
  if (tls_) {
    if (!std::exchange(finished_, true)) tls_->finish();
    tls_->flush();
    if (tls_->wants_write()) return false;
  }
  ::shutdown(get(), SHUT_WR);
  return true;
}

std::optional<Socket::Binding> Socket::binding() const { return tls_ ? std::optional(tls_->binding()) : std::nullopt; }

std::string Socket::trouble() const { return tls_ ? tls_->trouble() : std::string(); }

}  // namespace sinew
