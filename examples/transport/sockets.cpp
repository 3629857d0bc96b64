#include "sockets.hpp"

#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <sinew/core/error.hpp>

namespace mailbox {
namespace {

using sinew::FileDescriptor;

constexpr int kType = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;
constexpr std::string_view kVisitor = "sinew-mailbox-from/";

std::string name_of_box(std::uint64_t box) { return fmt::format("sinew-mailbox/{:016x}", box); }
std::string name_of_visitor(std::uint64_t from, std::uint64_t to) {
  return fmt::format("{}{:016x}/{:016x}", kVisitor, from, to);
}

struct Name {
  explicit Name(const std::string& text) {
    address.sun_family = AF_UNIX;
    text.copy(address.sun_path + 1, sizeof address.sun_path - 1);  // after a zero: abstract, no file
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

  sockaddr_un address{};
  socklen_t bytes = 0;
};

FileDescriptor socket_named(const std::string& text) {
  FileDescriptor s(::socket(AF_UNIX, kType, 0));
  if (!s) sinew::throw_errno("mailbox: socket");
  const Name name(text);
  if (::bind(s.get(), name.get(), name.bytes) != 0) sinew::throw_errno("mailbox: bind to @" + text);
  return s;
}

bool same_user(int socket) {
  ucred who{};
  socklen_t bytes = sizeof who;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.uid == ::geteuid();
}

/// Whose end has this name; nullopt: no box's.
std::optional<std::uint64_t> box_of(const sockaddr_un& address, socklen_t bytes) {
  constexpr std::size_t kDigits = 16;
  const std::size_t before = offsetof(sockaddr_un, sun_path) + 1;
  std::string_view text(address.sun_path + 1, bytes > before ? bytes - before : 0);
  if (!text.starts_with(kVisitor)) return std::nullopt;
  text = text.substr(kVisitor.size(), kDigits);
  std::uint64_t box = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), box, 16);
  if (error != std::errc() || text.size() != kDigits || end != text.data() + kDigits) return std::nullopt;
  return box;
}

}  // namespace

FileDescriptor listen_at(std::uint64_t box) {
  FileDescriptor s = socket_named(name_of_box(box));
  if (::listen(s.get(), SOMAXCONN) != 0) sinew::throw_errno("mailbox: listen");
  return s;
}

FileDescriptor dial(std::uint64_t from, std::uint64_t to) {
  FileDescriptor s = socket_named(name_of_visitor(from, to));
  const Name name(name_of_box(to));
  if (::connect(s.get(), name.get(), name.bytes) == 0) return s;
  if (errno == ECONNREFUSED) return {};
  sinew::throw_errno("mailbox: connect");
}

std::optional<Visitor> accept_from(int listener) {
  while (true) {
    sockaddr_un address{};
    socklen_t bytes = sizeof address;
    FileDescriptor s(::accept4(listener, reinterpret_cast<sockaddr*>(&address), &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!s) return std::nullopt;
    const std::optional<std::uint64_t> box = box_of(address, bytes);
    if (box && same_user(s.get())) return Visitor{*box, std::move(s)};
  }
}

bool put(int socket, const Packet& packet, sinew::ConstBuffer piece) {
  std::array<iovec, 2> parts{iovec{const_cast<Packet*>(&packet), sizeof packet},
                             iovec{const_cast<std::byte*>(piece.data), piece.bytes}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = piece.bytes == 0 ? 1 : 2;
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) > 0;
}

Taken take(int socket, Packet& packet, std::byte* piece, std::size_t& piece_bytes) {
  std::array<iovec, 2> parts{iovec{&packet, sizeof packet}, iovec{piece, kPieceBytes}};
  const ssize_t bytes = ::readv(socket, parts.data(), parts.size());
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return Taken::Nothing;
  if (bytes < static_cast<ssize_t>(sizeof packet)) return Taken::Ended;
  piece_bytes = static_cast<std::size_t>(bytes) - sizeof packet;
  return Taken::Packet;
}

}  // namespace mailbox
