#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/control/host_link.hpp>

namespace sinew {
namespace {

constexpr int kKeepAliveSeconds = 1;
constexpr int kKeepAliveProbes = 4;
constexpr int kUserTimeoutMs = 5000;
constexpr std::size_t kHeaderBytes = 5;  // u32 length of what follows the type, then the type

void set(int socket, int level, int option, int value) { ::setsockopt(socket, level, option, &value, sizeof value); }

void prepare(int socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveSeconds);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveSeconds);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveProbes);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
}

}  // namespace

HostLink::HostLink(Socket socket, Authentication authentication, bool connecting, std::string address)
    : socket_(std::move(socket)),
      authentication_(std::move(authentication)),
      state_(connecting ? State::Connecting : State::Proving),
      connects_(connecting),
      peer_(connecting ? authentication_.claim().to_rank : -1),
      address_(std::move(address)) {
  prepare(socket_.get());
}

std::unique_ptr<HostLink> HostLink::connect(const SocketAddress& to, const LinkKeys& keys, const AuthClaim& claim) {
  FileDescriptor descriptor(::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int refused = descriptor ? 0 : errno;
  Socket socket(std::move(descriptor), Socket::End::Connects, keys.tls);
  std::unique_ptr<HostLink> link(
      new HostLink(std::move(socket), Authentication::connector(keys.secret, claim), true, to.text()));
  if (refused != 0) {
    link->fail("making a socket", refused);
  } else if (::connect(link->descriptor(), to.data(), to.length()) != 0 && errno != EINPROGRESS) {
    link->fail("connecting", errno);
  }
  return link;
}

std::unique_ptr<HostLink> HostLink::accept(FileDescriptor descriptor, const LinkKeys& keys, const AuthClaim& expected) {
  sockaddr_storage from{};
  socklen_t length = sizeof from;
  ::getpeername(descriptor.get(), reinterpret_cast<sockaddr*>(&from), &length);
  const SocketAddress address = SocketAddress::from(reinterpret_cast<const sockaddr*>(&from), length);
  Socket socket(std::move(descriptor), Socket::End::Accepts, keys.tls);
  return std::unique_ptr<HostLink>(
      new HostLink(std::move(socket), Authentication::acceptor(keys.secret, expected), false, address.text()));
}

EventLoop::Interest HostLink::interest() const noexcept {
  const bool proving = state_ == State::Proving && socket_.is_open() && !authentication_.to_send().empty();
  const bool unsent = proving || wants_write() || (state_ == State::Open && !out_.empty());
  const bool write = state_ == State::Connecting || unsent;
  return {.read = true, .write = write};
}

void HostLink::fail(std::string what, int error) {
  if (state_ == State::Closed) return;
  reason_ = error != 0 ? fmt::format("{}: {}", what, std::strerror(error)) : std::move(what);
  error_ = error;
  state_ = State::Closed;
}

void HostLink::serve(const Take& take) {
  if (state_ == State::Connecting) connected();
  if (state_ == State::Proving) prove();
  if (state_ == State::Open) read(take);
  write();
}

void HostLink::connected() {
  pollfd writable{socket_.get(), POLLOUT, 0};
  if (::poll(&writable, 1, 0) == 0) return;
  if (const int error = connect_result(socket_.get()); error != 0)
    return fail(fmt::format("connecting to {}", address_), error);
  state_ = State::Proving;
}

void HostLink::prove() {
  const Proof proof = pump(socket_, authentication_);
  clock_.look(socket_, authentication_);
  switch (proof) {
    case Proof::Underway: return;
    case Proof::Refused: return fail(authentication_.reason(), 0);
    case Proof::Closed: return fail("the other side hung up before it proved the secret", errno);
    case Proof::Proven:
      if (peer_ < 0) peer_ = authentication_.claim().from_rank;
      state_ = State::Open;
  }
}

void HostLink::read(const Take& take) {
  std::array<std::byte, 16384> piece;
  for (;;) {
    const ssize_t n = socket_.receive(piece);
    if (n < 0 && is_for_later(errno)) return;
    if (n <= 0) return fail("the control connection ended", n < 0 ? errno : 0);
    in_.insert(in_.end(), piece.begin(), piece.begin() + n);
    std::size_t at = 0;
    while (in_.size() - at >= kHeaderBytes) {
      std::uint32_t length = 0;
      std::memcpy(&length, in_.data() + at, sizeof length);
      if (length > kLongestFrame) return fail(fmt::format("a control message of {} bytes", length), 0);
      if (in_.size() - at - kHeaderBytes < length) break;
      take(static_cast<LinkFrame>(in_[at + 4]), std::span(in_).subspan(at + kHeaderBytes, length));
      at += kHeaderBytes + length;
    }
    in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

void HostLink::send(LinkFrame type, std::span<const std::byte> head, std::span<const std::byte> body) {
  if (state_ == State::Closed) return;
  Bytes frame(kHeaderBytes);
  const auto length = static_cast<std::uint32_t>(head.size() + body.size());
  std::memcpy(frame.data(), &length, sizeof length);
  frame[4] = static_cast<std::byte>(type);
  frame.insert(frame.end(), head.begin(), head.end());
  frame.insert(frame.end(), body.begin(), body.end());
  out_.push_back(std::move(frame));
  write();
}

void HostLink::write() {
  socket_.flush();
  while (state_ == State::Open && !out_.empty()) {
    const Bytes& front = out_.front();
    const ssize_t n = socket_.send(std::span(front).subspan(written_));
    if (n < 0 && is_for_later(errno)) return;
    if (n < 0) return fail("writing to the control connection", errno);
    written_ += static_cast<std::size_t>(n);
    if (written_ < front.size()) continue;
    out_.pop_front();
    written_ = 0;
  }
  // Closing while bytes come in would reset the connection, and what was written last could be lost: the peer closes.
  if (state_ == State::Open && finishing_ && !finished_) finished_ = socket_.finish();
}

void HostLink::finish() {
  finishing_ = true;
  write();
}

}  // namespace sinew
